// A way to a server that no address of ours reaches: a child process, such as ssh, whose stdin and
// stdout are the connection; and its far end. Knows neither ssh nor HTTP.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace gpuyard::http {

// The first bytes of the far end, once it has reached its server. Bytes before them are no part of
// the connection: a shell's start-up files may print something at each login.
inline constexpr std::string_view kGreeting = "gpuyard-dial-stdio 1\n";
inline constexpr std::size_t kMaxBytesBeforeGreeting = std::size_t{64} * 1024;

// Whether all of the greeting is in what was received. Errc::unavailable if something follows it,
// which nobody has asked for, or if too much has come without it.
Result<bool> has_greeting(std::string_view received);

// The end of a connection's child, or the reason why it did not get ready.
struct ChildExit {
  std::optional<int> status = {};  // its exit status; empty: it still runs, or a signal ended it
  bool timed_out = false;          // it was not ready in time
  std::string stderr_tail = {};    // the last lines of its stderr, safe to show
};

struct TunnelOptions {
  std::string name;                  // of the server, in messages: "ssh://lab"
  std::vector<std::string> command;  // the program first: a path, a name in PATH, or "" for our own
  std::function<Error(const ChildExit&)> explain;
  Duration greeting_timeout = std::chrono::seconds(15);
};

// One connection: the running child and our end of it. The destructor ends the child.
class TunnelConnection {
 public:
  static constexpr std::size_t kMaxStderrBytes = 2048;  // the last ones are kept

  // Blocks until the far side has greeted, `greeting_timeout` at most.
  static Result<std::unique_ptr<TunnelConnection>> open(const TunnelOptions&);
  ~TunnelConnection();
  TunnelConnection(const TunnelConnection&) = delete;
  TunnelConnection& operator=(const TunnelConnection&) = delete;

  int descriptor() const { return socket_.get(); }
  // Whether it is open, and nothing unrequested was received.
  bool is_idle() const;
  // Whether the other side has closed it, and all that came is read.
  bool has_ended() const;
  // Sends a text and its end, and returns what comes until the other side ends, `max_bytes` at
  // most.
  Result<std::string> exchange(std::string_view text, Duration timeout, std::size_t max_bytes);
  // The error of a connection that broke off.
  Error failure_reason();

 private:
  explicit TunnelConnection(const TunnelOptions& options) : options_(options) {}

  Result<void> start();
  Result<void> wait_for_greeting(TimePoint deadline);
  bool read_some(std::string& received);
  void read_stderr();
  ChildExit child_exit();
  bool wait_for_exit(Duration timeout);
  void terminate_child();

  const TunnelOptions options_;
  UniqueFd socket_;
  UniqueFd stderr_pipe_;  // reads its stderr; empty when that is closed
  UniqueFd pidfd_;        // empty when the child is reaped
  pid_t pid_ = 0;
  std::optional<int> status_;
  std::string stderr_tail_;
};

// Shared by all copies of an endpoint. Thread: any. Keeps one connection open for the next request,
// because a login takes longer than a request.
class Tunnel {
 public:
  // A daemon closes a connection that is idle for 60 s; one that is idle for longer than this is
  // not used again.
  static constexpr Duration kMaxIdleTime = std::chrono::seconds(45);

  explicit Tunnel(TunnelOptions options) : options_(std::move(options)) {}

  const std::string& name() const { return options_.name; }
  // `arguments` follow the words of the command.
  Result<std::unique_ptr<TunnelConnection>> open(
      const std::vector<std::string>& arguments = {}) const;
  // The connection that was kept, if it can be used; null if there is none.
  std::unique_ptr<TunnelConnection> take_idle();
  void store_idle(std::unique_ptr<TunnelConnection>);

 private:
  const TunnelOptions options_;
  Mutex mutex_;
  std::unique_ptr<TunnelConnection> idle_ GUARDED_BY(mutex_);
  TimePoint idle_since_ GUARDED_BY(mutex_);
};

}  // namespace gpuyard::http
