#include "sim/process_exit_monitor.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "base/files.h"
#include "base/proc_stat.h"

namespace gpuyard::sim {
namespace {

constexpr std::size_t kMaxEventsPerPoll = 64;

Error no_process_error(const ProcessKey& key) {
  return Error{Errc::not_found, fmt::format("process {} not found", key.pid)};
}

// Uses the system call: glibc has the wrapper only from 2.36.
Result<UniqueFd> open_process(const ProcessKey& key) {
  const auto pid = static_cast<pid_t>(key.pid);
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process && (errno == EMFILE || errno == ENFILE)) {
    return Error{Errc::busy,
                 "the simulator process has no file descriptor left to watch another process"};
  }
  // Opened first, checked second: from here on the pid cannot become another process.
  if (!process || process_start_time(pid) != key.start_time) return no_process_error(key);
  return process;
}

}  // namespace

Result<ProcessExitMonitor> ProcessExitMonitor::create() {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return system_error("creating an epoll");
  return ProcessExitMonitor(std::move(epoll));
}

Result<void> ProcessExitMonitor::watch(const ProcessKey& key) {
  if (watched_.contains(key)) return {};
  auto process = open_process(key);
  if (!process) return std::move(process).error();
  epoll_event event{.events = EPOLLIN, .data = {.fd = process->get()}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, process->get(), &event) != 0) {
    return system_error("watching a process");
  }
  watched_.emplace(key, *std::move(process));
  return {};
}

std::vector<ProcessKey> ProcessExitMonitor::take_exited() {
  std::vector<ProcessKey> dead;
  std::array<epoll_event, kMaxEventsPerPoll> events{};
  const int ready = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  for (int i = 0; i < ready; ++i) {
    const int fd = events[static_cast<std::size_t>(i)].data.fd;
    const auto found =
        std::ranges::find_if(watched_, [&](const auto& entry) { return entry.second.get() == fd; });
    if (found == watched_.end()) continue;
    dead.push_back(found->first);
    watched_.erase(found);
  }
  return dead;
}

}  // namespace gpuyard::sim
