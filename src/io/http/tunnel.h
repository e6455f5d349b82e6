// A way to a server that no address of ours reaches: a child process, such as ssh, whose stdin and
// stdout are the connection; and its far end. Knows neither ssh nor HTTP.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace gpuyard::http {

// What the far side says first, once it has reached its server. What comes before it is no part of
// the connection: a shell's start-up files may print something at each login.
inline constexpr std::string_view kGreeting = "gpuyard-dial-stdio 1\n";
inline constexpr std::size_t kMostBeforeGreeting = std::size_t{64} * 1024;  // bytes

// Whether all of the greeting is in what was received. Errc::unavailable if something follows it,
// which nobody has asked for, or if too much has come without it.
Result<bool> has_greeting(std::string_view received);

// The far end: connects to the server, greets on `out`, and passes bytes on, from `in` to the
// server and from the server to `out`, until either side ends. If only `in` ends, the server may
// still answer for a moment. Blocks for as long as that takes. Errors: the server was not reached.
struct RelayLimits {
  Duration connecting = std::chrono::seconds(2);
  Duration last_words = std::chrono::seconds(1);  // for what is left when one side has ended
  // Without a byte in either direction. A daemon writes more often into every stream.
  Duration silence = std::chrono::minutes(10);
};
struct Endpoint;
struct SocketAddress;
Result<void> relay(const Endpoint& server, int in, int out, const RelayLimits& = {});

// Whether a client's own address is the one that relay() takes, so that a server knows it. Nobody
// gains by taking it: see api/leases.cpp.
bool is_relay(const SocketAddress& client);

// How the child of a connection ended, or why it did not get ready.
struct ChildEnd {
  std::optional<int> status = {};  // its exit status; empty: it still runs, or a signal ended it
  bool too_late = false;           // it was not ready in time
  std::string said = {};           // the last lines of its stderr, safe to show
};

struct TunnelOptions {
  std::string name;                  // of the server, in messages: "ssh://lab"
  std::vector<std::string> command;  // the program first: a path, a name in PATH, or "" for our own
  std::function<Error(const ChildEnd&)> explain;
  Duration patience = std::chrono::seconds(15);  // for the greeting
};

// One connection: the running child and our end of it. The destructor ends the child.
class Line {
 public:
  static constexpr std::size_t kErrorsKept = 2048;  // bytes of stderr; the last ones are kept

  // Blocks until the far side has greeted, the plan's patience at most.
  static Result<std::unique_ptr<Line>> open(const TunnelOptions&);
  ~Line();
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  int descriptor() const { return socket_.get(); }
  // Whether it is open, and nothing has come that nobody asked for.
  bool is_quiet() const;
  // Whether the other side has closed it, and all that came is read.
  bool has_ended() const;
  // Sends a text and its end, and returns what comes until the other side ends, `most` bytes at
  // most.
  Result<std::string> ask(std::string_view text, Duration patience, std::size_t most);
  // What to say of a connection that broke off.
  Error why_it_broke();

 private:
  explicit Line(const TunnelOptions& plan) : plan_(plan) {}

  Result<void> start();
  Result<void> await_greeting(TimePoint deadline);
  bool read_some(std::string& received);
  void read_errors();
  ChildEnd end_of_child();
  bool waits_for_end(Duration patience);
  void end_child();

  const TunnelOptions plan_;
  UniqueFd socket_;
  UniqueFd errors_;  // reads its stderr; empty when that is closed
  UniqueFd pidfd_;   // empty when the child is reaped
  pid_t pid_ = 0;
  std::optional<int> status_;
  std::string said_;
};

// Shared by all copies of an endpoint, from any thread. Keeps one connection open for the next
// request, because a login takes longer than a request.
class Carrier {
 public:
  // A daemon closes a connection that is idle for 60 s; one that is idle for longer than this is
  // not used again.
  static constexpr Duration kIdleKept = std::chrono::seconds(45);

  explicit Carrier(TunnelOptions plan) : plan_(std::move(plan)) {}

  const std::string& name() const { return plan_.name; }
  // `more` follows the words of the command.
  Result<std::unique_ptr<Line>> open(const std::vector<std::string>& more = {}) const;
  // The connection that was kept, if it can be used; null if there is none.
  std::unique_ptr<Line> take_kept();
  void keep(std::unique_ptr<Line>);

 private:
  const TunnelOptions plan_;
  std::mutex mutex_;  // guards what follows
  std::unique_ptr<Line> kept_;
  TimePoint kept_since_;
};

}  // namespace gpuyard::http
