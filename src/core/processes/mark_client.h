// The daemon's side of `gpuyard marks`. A reply has a deadline, because the other end may be
// stopped, hang in the kernel, or be another program.
//
// Thread: worker, one only, which each call may block; connect() may run before it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "core/processes/mark_records.h"

namespace gpuyard::processes {

// A connection to `gpuyard marks`, and the process if it is a child of ours.
struct MarkLink {
  UniqueFd socket;  // SOCK_SEQPACKET
  pid_t child = -1;
};

class MarkClient {
 public:
  using Connector = std::function<Result<MarkLink>()>;

  static constexpr Duration kReplyTimeout = std::chrono::milliseconds(400);
  // The timeout of the first request on a connection, which may start the process.
  static constexpr Duration kFirstReplyTimeout = std::chrono::milliseconds(900);
  static constexpr Duration kMinRetryDelay = std::chrono::seconds(1);
  static constexpr Duration kMaxRetryDelay = std::chrono::seconds(30);
  // The maximum number of killed children that have not exited. No more are started.
  static constexpr std::size_t kMaxKilledChildren = 4;

  explicit MarkClient(Connector open) : connector_(std::move(open)) {}
  ~MarkClient();
  MarkClient(const MarkClient&) = delete;
  MarkClient& operator=(const MarkClient&) = delete;

  // Connects ahead of the first request, so that a child is started before the daemon listens.
  void connect();

  // Returns one index for each process; nothing if there is no reply now. A connection that fails
  // is replaced once within the call, and then only after a pause that grows.
  std::optional<std::vector<MarkIndex>> fetch_marks(PidSpace, std::span<const ScanTarget>,
                                                    std::span<const std::string> leases);

  // Returns what /proc would show of a process, and of all in this PID namespace, if it hid none.
  // Errc::not_found: there is no such process; Errc::unavailable: there is no reply now.
  Result<ProcessView> view(PidSpace, std::uint32_t pid);
  std::optional<ProcessTable> table();

  // Whether it has ever replied, or was started as a child, which will reply.
  bool has_replied() const { return replied_; }
  // Why it does not reply now; "" if it does, or got no request yet. Thread: any.
  std::string error_text() const;

 private:
  using MarkIndexes = std::optional<std::vector<MarkIndex>>;

  MarkIndexes fetch_all_marks(PidSpace, std::span<const ScanTarget>,
                              std::span<const std::string> leases);
  template <class Request>
  auto fetch(const Request&) -> decltype(parse_reply(std::string_view(), Request()));
  Result<std::string> exchange(const std::string& bytes, Duration timeout);
  bool open_link();
  void close_link();
  void reap();
  void record_failure(const std::string& why);
  void record_success();

  const Connector connector_;
  MarkLink link_;
  bool new_link_ = true;  // no reply came on this connection yet
  std::uint32_t next_number_ = 1;
  std::uint32_t scan_ = 0;
  TimePoint retry_at_{};
  Duration retry_delay_ = kMinRetryDelay;
  std::vector<pid_t> killed_children_;
  std::atomic<bool> replied_ = false;
  mutable Mutex mutex_;
  std::string error_text_ GUARDED_BY(mutex_);
};

// Requests from `gpuyard marks`, on a connection of its own, a file that this user may not open.
// Thread: any; blocks up to kFirstReplyTimeout. Errc::denied: it does not pass this file.
Result<UniqueFd> request_file(const MarkClient::Connector&, const std::string& path);

}  // namespace gpuyard::processes
