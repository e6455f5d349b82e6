#include "processes/mark_client.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/files.h"
#include "base/log.h"

namespace gpuyard::processes {
namespace {

Error silent() {
  return {Errc::timed_out, "it does not answer in time"};
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
    log::warning(
        "gpuyard marks is not available: {}. Until it is, the lease of another user's process is "
        "found only by its parents",
        why);
  }
}

void MarkClient::succeed() {
  fresh_ = false;
  answered_ = true;
  pause_ = kFirstPause;
  const std::lock_guard lock(mutex_);
  if (!std::exchange(trouble_, "").empty()) log::info("gpuyard marks answers again");
}

bool MarkClient::open_link() {
  reap();
  if (departing_.size() >= kMostDeparting) {
    fail("earlier processes of it were killed but do not end");
    return false;
  }
  auto link = open_();
  if (!link) {
    fail(link.error().text());
    return false;
  }
  link_ = *std::move(link);
  fresh_ = true;
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
MarkClient::Places MarkClient::ask_once(const MarkQuestion& question) {
  const std::string bytes = bytes_of(question);
  for (;;) {
    if (!link_.socket) {
      if (BootClock::now() < not_before_ || !open_link()) return std::nullopt;
    }
    const bool was_fresh = fresh_;
    const auto answer = exchange(bytes, was_fresh ? kFirstPatience : kPatience);
    auto places = answer ? answer_in(*answer, question) : std::nullopt;
    if (places) {
      succeed();
      return places;
    }
    if (was_fresh) {
      fail(answer ? "its answer is not understood; it may be of another version"
                  : answer.error().text());
      return std::nullopt;
    }
    end_link();
  }
}

// Each question is within the limits: all processes, for one part of the leases after the other.
MarkClient::Places MarkClient::ask_all(Numbering numbering, std::span<const Asked> processes,
                                       std::span<const std::string> leases) {
  std::vector<MarkPlace> all(processes.size(), kMarkUnreadable);
  for (std::size_t from = 0; from < processes.size(); from += MarkQuestion::kMostProcesses) {
    const auto some =
        processes.subspan(from, std::min(MarkQuestion::kMostProcesses, processes.size() - from));
    for (std::size_t first = 0; first < leases.size(); first += MarkQuestion::kMostLeases) {
      const auto part =
          leases.subspan(first, std::min(MarkQuestion::kMostLeases, leases.size() - first));
      const auto places = ask_once({.number = next_++,
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

std::optional<std::vector<MarkPlace>> MarkClient::ask(Numbering numbering,
                                                      std::span<const Asked> processes,
                                                      std::span<const std::string> leases) {
  if (processes.empty() || leases.empty()) {
    return std::vector<MarkPlace>(processes.size(), kNoMark);
  }
  ++look_;
  return ask_all(numbering, processes, leases);
}

}  // namespace gpuyard::processes
