#include "core/processes/mark_client.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/log.h"
#include "base/passed_fds.h"
#include "base/try.h"

namespace gpuyard::processes {
namespace {

Error reply_timeout_error() {
  return {Errc::timed_out, "it did not respond in time"};
}

template <class Reply>
Reply no_reply() {
  if constexpr (std::is_same_v<Reply, Result<ProcessView>>) {
    return Error{Errc::unavailable, "gpuyard-marks is not responding"};
  } else {
    return std::nullopt;
  }
}

bool is_reply(const Result<ProcessView>& reply) {
  return reply || reply.error().code == Errc::not_found;
}
template <class Reply>
bool is_reply(const std::optional<Reply>& reply) {
  return reply.has_value();
}

// Waits until the socket can be read or written.
bool wait_for(int socket, short what, TimePoint until) {
  for (;;) {
    pollfd polled{socket, what, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - BootClock::now());
    if (left.count() <= 0) return false;
    const int ready = ::poll(&polled, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

Result<UniqueFd> receive_file(int socket, const FileRequest& request) {
  std::array<char, 64> reply{};
  DatagramWithFds received = receive_with_fds(socket, reply, MSG_DONTWAIT);
  if (received.size < 0) return system_error("receiving");
  const auto given = parse_reply(
      received.truncated ? ""
                         : std::string_view(reply.data(), static_cast<std::size_t>(received.size)),
      request);
  if (!given) return Error{Errc::invalid, "its answer is not understood"};
  if (!*given || received.fds.empty()) {
    return Error{Errc::denied, "gpuyard-marks refused to open this file"};
  }
  return std::move(received.fds.front());
}

}  // namespace

MarkClient::~MarkClient() {
  close_link();
  reap();
}

std::string MarkClient::error_text() const {
  const MutexLock lock(mutex_);
  return error_text_;
}

void MarkClient::connect() {
  if (!link_.socket) open_link();
}

void MarkClient::record_failure(const std::string& why) {
  close_link();
  retry_at_ = BootClock::now() + retry_delay_;
  retry_delay_ = std::min(retry_delay_ * 2, kMaxRetryDelay);
  const MutexLock lock(mutex_);
  if (std::exchange(error_text_, why).empty()) {
    // This is normal for a daemon that a user runs without the service.
    log::write(replied_ ? log::Level::warning : log::Level::info,
               fmt::format("gpuyard-marks is not available: {}. Until it is, the lease of another "
                           "user's process is found only by its parents",
                           why));
  }
}

void MarkClient::record_success() {
  new_link_ = false;
  replied_ = true;
  retry_delay_ = kMinRetryDelay;
  const MutexLock lock(mutex_);
  if (!std::exchange(error_text_, "").empty()) log::info("gpuyard-marks answers again");
}

bool MarkClient::open_link() {
  reap();
  if (killed_children_.size() >= kMaxKilledChildren) {
    record_failure("killed gpuyard-marks processes have not exited");
    return false;
  }
  auto link = connector_();
  if (!link) {
    record_failure(link.error().text());
    return false;
  }
  link_ = *std::move(link);
  new_link_ = true;
  if (link_.child > 0) replied_ = true;
  return true;
}

void MarkClient::close_link() {
  link_.socket.reset();
  const pid_t child = std::exchange(link_.child, -1);
  if (child <= 0) return;
  ::kill(child, SIGKILL);
  killed_children_.push_back(child);
}

// A child that hangs inside the kernel stays behind; it holds nothing of ours.
void MarkClient::reap() {
  std::erase_if(killed_children_,
                [](pid_t child) { return ::waitpid(child, nullptr, WNOHANG) != 0; });
}

Result<std::string> MarkClient::exchange(const std::string& bytes, Duration timeout) {
  const int socket = link_.socket.get();
  const TimePoint until = BootClock::now() + timeout;
  if (!wait_for(socket, POLLOUT, until)) return reply_timeout_error();
  if (::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    return system_error("sending");
  }
  std::string reply(kMaxMarkBytes, '\0');
  if (!wait_for(socket, POLLIN, until)) return reply_timeout_error();
  const ssize_t got = ::recv(socket, reply.data(), reply.size(), MSG_DONTWAIT | MSG_TRUNC);
  if (got < 0) return system_error("receiving");
  if (got == 0) return Error{Errc::unavailable, "it closed the connection"};
  if (static_cast<std::size_t>(got) > reply.size()) {
    return Error{Errc::invalid, "its answer is too long"};
  }
  reply.resize(static_cast<std::size_t>(got));
  return reply;
}

// A connection on which a reply did not come in time is not used again: it may come later. The
// first failure of a connection that has worked opens another at once, so that neither a kill nor a
// stop of the other end costs an observation.
template <class Request>
auto MarkClient::fetch(const Request& request)
    -> decltype(parse_reply(std::string_view(), Request())) {
  using Reply = decltype(parse_reply(std::string_view(), request));
  const std::string bytes = bytes_of(request);
  for (;;) {
    if (!link_.socket) {
      if (BootClock::now() < retry_at_ || !open_link()) return no_reply<Reply>();
    }
    const bool was_fresh = new_link_;
    const auto received = exchange(bytes, was_fresh ? kFirstReplyTimeout : kReplyTimeout);
    if (received) {
      if (auto reply = parse_reply(*received, request); is_reply(reply)) {
        record_success();
        return reply;
      }
    }
    if (was_fresh) {
      record_failure(received ? "its answer is not understood; it may be of another version"
                              : received.error().text());
      return no_reply<Reply>();
    }
    close_link();
  }
}

// Each request is within the limits: all processes, for one part of the leases after the other.
MarkClient::MarkIndexes MarkClient::fetch_all_marks(PidSpace pid_space,
                                                    std::span<const ScanTarget> processes,
                                                    std::span<const std::string> leases) {
  std::vector<MarkIndex> all(processes.size(), kMarkUnreadable);
  for (std::size_t from = 0; from < processes.size(); from += MarkRequest::kMaxProcesses) {
    const auto some =
        processes.subspan(from, std::min(MarkRequest::kMaxProcesses, processes.size() - from));
    for (std::size_t first = 0; first < leases.size(); first += MarkRequest::kMaxLeases) {
      const auto part =
          leases.subspan(first, std::min(MarkRequest::kMaxLeases, leases.size() - first));
      const auto mark_indexes = fetch(MarkRequest{.number = next_number_++,
                                                  .scan = scan_,
                                                  .pid_space = pid_space,
                                                  .processes = {some.begin(), some.end()},
                                                  .leases = {part.begin(), part.end()}});
      if (!mark_indexes) return std::nullopt;
      for (std::size_t i = 0; i < some.size(); ++i) {
        MarkIndex& mark_index = all[from + i];
        if ((*mark_indexes)[i] >= 0)
          mark_index = (*mark_indexes)[i] + static_cast<MarkIndex>(first);
        if ((*mark_indexes)[i] == kNoMark && mark_index == kMarkUnreadable) mark_index = kNoMark;
      }
    }
  }
  return all;
}

std::optional<std::vector<MarkIndex>> MarkClient::fetch_marks(PidSpace pid_space,
                                                              std::span<const ScanTarget> processes,
                                                              std::span<const std::string> leases) {
  if (processes.empty() || leases.empty()) {
    return std::vector<MarkIndex>(processes.size(), kNoMark);
  }
  ++scan_;
  return fetch_all_marks(pid_space, processes, leases);
}

Result<ProcessView> MarkClient::view(PidSpace pid_space, std::uint32_t pid) {
  return fetch(ViewRequest{.number = next_number_++, .pid_space = pid_space, .pid = pid});
}

std::optional<ProcessTable> MarkClient::table() {
  ProcessTable table;
  for (std::uint32_t from = 0;;) {
    auto rows = fetch(TableRequest{.number = next_number_++, .from = from});
    if (!rows) return std::nullopt;
    const bool last = rows->size() < TableRequest::kMaxRows;
    std::ranges::move(*rows, std::back_inserter(table.rows));
    if (last) return table;
    if (table.rows.size() >= ProcessTable::kMaxRows) {
      table.complete = false;
      return table;
    }
    from = table.rows.back().process.pid + 1;
  }
}

Result<UniqueFd> request_file(const MarkClient::Connector& open, const std::string& path) {
  const auto link = GPUYARD_TRY(open());
  const int socket = link.socket.get();
  const TimePoint until = BootClock::now() + MarkClient::kFirstReplyTimeout;
  const FileRequest request{.number = 1, .digest = digest_of(path)};
  const std::string bytes = bytes_of(request);
  if (!wait_for(socket, POLLOUT, until)) return reply_timeout_error();
  if (::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    return system_error("sending");
  }
  if (!wait_for(socket, POLLIN, until)) return reply_timeout_error();
  return receive_file(socket, request);
}

}  // namespace gpuyard::processes
