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

namespace gpuyard::processes {
namespace {

Error silent() {
  return {Errc::timed_out, "it did not respond in time"};
}

template <class Answer>
Answer no_answer() {
  if constexpr (std::is_same_v<Answer, Result<ProcessView>>) {
    return Error{Errc::unavailable, "gpuyard-marks is not responding"};
  } else {
    return std::nullopt;
  }
}

bool is_answer(const Result<ProcessView>& answer) {
  return answer || answer.error().code == Errc::not_found;
}
template <class Answer>
bool is_answer(const std::optional<Answer>& answer) {
  return answer.has_value();
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

}  // namespace

MarkClient::~MarkClient() {
  end_link();
  reap();
}

std::string MarkClient::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

void MarkClient::connect() {
  if (!link_.socket) open_link();
}

void MarkClient::fail(const std::string& why) {
  end_link();
  not_before_ = BootClock::now() + pause_;
  pause_ = std::min(pause_ * 2, kLongestPause);
  const std::lock_guard lock(mutex_);
  if (std::exchange(trouble_, why).empty()) {
    // For a daemon that somebody runs without the service, that is as it should be.
    log::write(answered_ ? log::Level::warning : log::Level::info,
               fmt::format("gpuyard-marks is not available: {}. Until it is, the lease of another "
                           "user's process is found only by its parents",
                           why));
  }
}

void MarkClient::succeed() {
  fresh_ = false;
  answered_ = true;
  pause_ = kFirstPause;
  const std::lock_guard lock(mutex_);
  if (!std::exchange(trouble_, "").empty()) log::info("gpuyard-marks answers again");
}

bool MarkClient::open_link() {
  reap();
  if (departing_.size() >= kMostDeparting) {
    fail("killed gpuyard-marks processes have not exited");
    return false;
  }
  auto link = open_();
  if (!link) {
    fail(link.error().text());
    return false;
  }
  link_ = *std::move(link);
  fresh_ = true;
  if (link_.child > 0) answered_ = true;
  return true;
}

void MarkClient::end_link() {
  link_.socket.reset();
  const pid_t child = std::exchange(link_.child, -1);
  if (child <= 0) return;
  ::kill(child, SIGKILL);
  departing_.push_back(child);
}

// One that hangs inside the kernel stays behind; it holds nothing of ours.
void MarkClient::reap() {
  std::erase_if(departing_, [](pid_t child) { return ::waitpid(child, nullptr, WNOHANG) != 0; });
}

Result<std::string> MarkClient::exchange(const std::string& bytes, Duration patience) {
  const int socket = link_.socket.get();
  const TimePoint until = BootClock::now() + patience;
  if (!wait_for(socket, POLLOUT, until)) return silent();
  if (::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    return system_error("sending");
  }
  std::string answer(kMostMarkBytes, '\0');
  if (!wait_for(socket, POLLIN, until)) return silent();
  const ssize_t got = ::recv(socket, answer.data(), answer.size(), MSG_DONTWAIT | MSG_TRUNC);
  if (got < 0) return system_error("receiving");
  if (got == 0) return Error{Errc::unavailable, "it closed the connection"};
  if (static_cast<std::size_t>(got) > answer.size()) {
    return Error{Errc::invalid, "its answer is too long"};
  }
  answer.resize(static_cast<std::size_t>(got));
  return answer;
}

// A connection on which a question was not answered in time is not used again: its answer may come
// later. So that neither a kill nor a stop of the other end costs a look, the first failure of a
// connection that has worked opens another at once.
template <class Question>
auto MarkClient::ask_once(const Question& question)
    -> decltype(answer_in(std::string_view(), Question())) {
  using Answer = decltype(answer_in(std::string_view(), question));
  const std::string bytes = bytes_of(question);
  for (;;) {
    if (!link_.socket) {
      if (BootClock::now() < not_before_ || !open_link()) return no_answer<Answer>();
    }
    const bool was_fresh = fresh_;
    const auto received = exchange(bytes, was_fresh ? kFirstPatience : kPatience);
    if (received) {
      if (auto answer = answer_in(*received, question); is_answer(answer)) {
        succeed();
        return answer;
      }
    }
    if (was_fresh) {
      fail(received ? "its answer is not understood; it may be of another version"
                    : received.error().text());
      return no_answer<Answer>();
    }
    end_link();
  }
}

// Each question is within the limits: all processes, for one part of the leases after the other.
MarkClient::Places MarkClient::ask_all(PidSpace numbering, std::span<const Asked> processes,
                                       std::span<const std::string> leases) {
  std::vector<MarkPlace> all(processes.size(), kMarkUnreadable);
  for (std::size_t from = 0; from < processes.size(); from += MarkQuestion::kMostProcesses) {
    const auto some =
        processes.subspan(from, std::min(MarkQuestion::kMostProcesses, processes.size() - from));
    for (std::size_t first = 0; first < leases.size(); first += MarkQuestion::kMostLeases) {
      const auto part =
          leases.subspan(first, std::min(MarkQuestion::kMostLeases, leases.size() - first));
      const auto places = ask_once(MarkQuestion{.number = next_++,
                                                .look = look_,
                                                .numbering = numbering,
                                                .processes = {some.begin(), some.end()},
                                                .leases = {part.begin(), part.end()}});
      if (!places) return std::nullopt;
      for (std::size_t i = 0; i < some.size(); ++i) {
        MarkPlace& place = all[from + i];
        if ((*places)[i] >= 0) place = (*places)[i] + static_cast<MarkPlace>(first);
        if ((*places)[i] == kNoMark && place == kMarkUnreadable) place = kNoMark;
      }
    }
  }
  return all;
}

std::optional<std::vector<MarkPlace>> MarkClient::ask(PidSpace numbering,
                                                      std::span<const Asked> processes,
                                                      std::span<const std::string> leases) {
  if (processes.empty() || leases.empty()) {
    return std::vector<MarkPlace>(processes.size(), kNoMark);
  }
  ++look_;
  return ask_all(numbering, processes, leases);
}

Result<ProcessView> MarkClient::view(PidSpace numbering, std::uint32_t pid) {
  return ask_once(ViewQuestion{.number = next_++, .numbering = numbering, .pid = pid});
}

std::optional<ProcessTable> MarkClient::table() {
  ProcessTable table;
  for (std::uint32_t from = 0;;) {
    auto rows = ask_once(TableQuestion{.number = next_++, .from = from});
    if (!rows) return std::nullopt;
    const bool last = rows->size() < TableQuestion::kMostRows;
    std::ranges::move(*rows, std::back_inserter(table.rows));
    if (last) return table;
    if (table.rows.size() >= ProcessTable::kMost) {
      table.complete = false;
      return table;
    }
    from = table.rows.back().process.pid + 1;
  }
}

namespace {

Result<UniqueFd> receive_file(int socket, const FileQuestion& question) {
  std::array<char, 64> answer{};
  DatagramWithFds received = receive_with_fds(socket, answer, MSG_DONTWAIT);
  if (received.size < 0) return system_error("receiving");
  const auto given = answer_in(
      received.cut ? "" : std::string_view(answer.data(), static_cast<std::size_t>(received.size)),
      question);
  if (!given) return Error{Errc::invalid, "its answer is not understood"};
  if (!*given || received.fds.empty()) {
    return Error{Errc::denied, "gpuyard-marks refused to open this file"};
  }
  return std::move(received.fds.front());
}

}  // namespace

Result<UniqueFd> ask_for_file(const MarkClient::Open& open, const std::string& path) {
  const auto link = open();
  if (!link) return link.error();
  const int socket = link->socket.get();
  const TimePoint until = BootClock::now() + MarkClient::kFirstPatience;
  const FileQuestion question{.number = 1, .digest = digest_of(path)};
  const std::string bytes = bytes_of(question);
  if (!wait_for(socket, POLLOUT, until)) return silent();
  if (::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    return system_error("sending");
  }
  if (!wait_for(socket, POLLIN, until)) return silent();
  return receive_file(socket, question);
}

}  // namespace gpuyard::processes
