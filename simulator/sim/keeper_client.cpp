// Commands to a running keeper.
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fmt/format.h>

#include "base/boot.h"
#include "base/clock.h"
#include "base/files.h"
#include "sim/command.h"
#include "sim/keeper.h"
#include "sim/keeper_lock.h"
#include "sim/keeper_socket.h"
#include "sim/leftovers.h"

namespace gpuyard::sim {
namespace {

constexpr std::chrono::seconds kPatience{2};

Error no_keeper(const std::string& directory) {
  return Error{Errc::not_found, "no keeper runs in " + directory};
}

Error silent(const std::string& directory) {
  return Error{Errc::unavailable, "the keeper of " + directory + " does not answer"};
}

// Connecting and each transfer are bounded by the socket's own timeouts.
Result<UniqueFd> connect_to(const std::string& directory) {
  const auto address = KeeperAddress::in(directory);
  if (!address) return no_keeper(directory);
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::connect(fd.get(), address->get(), address->size()) == 0) return fd;
  if (errno == ENOENT || errno == ECONNREFUSED) return no_keeper(directory);
  if (errno == EAGAIN) return silent(directory);
  return system_error("connecting to the keeper of " + directory);
}

Result<void> ask(const std::string& directory, const Command& command) {
  const auto fd = connect_to(directory);
  if (!fd) return fd.error();
  Reply reply;
  if (::send(fd->get(), &command, sizeof command, MSG_NOSIGNAL) != ssize_t{sizeof command} ||
      ::recv(fd->get(), &reply, sizeof reply, 0) != ssize_t{sizeof reply}) {
    return silent(directory);
  }
  if (reply.failed == 0) return {};
  const std::string message(reply.message, ::strnlen(reply.message, sizeof reply.message));
  return Error{errc_from_number(reply.errc), message};
}

// A descriptor of exactly this process; empty if it is gone. By system call: glibc has the wrapper
// from 2.36 only.
UniqueFd open_process(const KeeperIdentity& keeper) {
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, keeper.pid, 0)));
  // Opened first, checked second: from here on the pid cannot become another process.
  if (process_start_time(keeper.pid) != keeper.start_time) process.reset();
  return process;
}

bool ended_within(const UniqueFd& process, Duration patience) {
  const TimePoint deadline = BootClock::now() + patience;
  for (;;) {
    pollfd waiting{process.get(), POLLIN, 0};
    const auto left = std::max<std::int64_t>(0, to_milliseconds(deadline - BootClock::now()));
    const int polled = ::poll(&waiting, 1, static_cast<int>(left));
    if (polled >= 0 || errno != EINTR) return polled > 0;
  }
}

Result<void> kill_process(const UniqueFd& process, const std::string& directory) {
  if (::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0) != 0) {
    if (errno == ESRCH) return {};
    return system_error("killing the keeper of " + directory);
  }
  return ended_within(process, kPatience) ? Result<void>() : silent(directory);
}

Command command_for(Verb verb, int gpu) {
  Command command;
  command.verb = verb;
  command.gpu = static_cast<std::uint32_t>(gpu);  // a negative one is no GPU of any world either
  return command;
}

}  // namespace

Result<void> stop_keeper(const std::string& directory) {
  auto lock = KeeperLock::open(directory);
  if (!lock && lock.error().code == Errc::not_found) return no_keeper(directory);
  if (!lock) return std::move(lock).error();
  if (lock->take()) {
    remove_leftovers(directory);
    return no_keeper(directory);
  }
  const auto keeper = lock->keeper();
  const UniqueFd process = keeper ? open_process(*keeper) : UniqueFd();
  // It is about to begin or to end, or lives where its pid means another process.
  if (!process) return silent(directory);
  const TimePoint deadline = BootClock::now() + kPatience;
  auto asked = ask(directory, command_for(Verb::stop, 0));
  if (!asked && asked.error().code == Errc::denied) return asked;
  const Duration left = asked ? deadline - BootClock::now() : Duration::zero();
  if (!ended_within(process, left)) {
    if (auto killed = kill_process(process, directory); !killed) return killed;
    if (lock->take()) remove_leftovers(directory);
  }
  ::waitpid(keeper->pid, nullptr, WNOHANG);  // in case it was our own child
  return {};
}

Result<void> inject(const std::string& directory, int gpu, const Fault& fault) {
  Command command = command_for(Verb::inject, gpu);
  command.fault = fault;
  return ask(directory, command);
}

Result<void> clear_faults(const std::string& directory, int gpu) {
  return ask(directory, command_for(Verb::clear_faults, gpu));
}

Result<void> set_load(const std::string& directory, int gpu, const Workload& load) {
  Command command = command_for(Verb::set_load, gpu);
  command.workload_kind = load.kind;
  command.load = load.load;
  command.vram_bytes = load.vram_bytes;
  return ask(directory, command);
}

}  // namespace gpuyard::sim
