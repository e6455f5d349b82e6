// Commands to a running world server.
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/proc_stat.h"
#include "sim/command.h"
#include "sim/driver_commands.h"
#include "sim/gpu_commands.h"
#include "sim/memory_errors.h"
#include "sim/physics.h"
#include "sim/world_client.h"
#include "sim/world_lock.h"

namespace gpuyard::sim {
namespace {

constexpr std::chrono::seconds kReplyTimeout{2};
constexpr std::uint64_t kStepBatch = 1'000;  // leaves the world server time for its other clients

Error no_world_error(const std::string& directory) {
  return Error{Errc::not_found, "no simulated world is running in " + directory};
}

Error no_reply_error(const std::string& directory) {
  return Error{Errc::unavailable, "the simulator process of " + directory + " does not respond"};
}

// The socket's own timeouts bound connecting and each transfer.
Result<UniqueFd> connect_to(const std::string& directory) {
  const auto address = WorldSocketAddress::create(directory);
  if (!address) return no_world_error(directory);
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const timeval timeout{.tv_sec = kReplyTimeout.count(), .tv_usec = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  if (::connect(fd.get(), address->get(), address->size()) == 0) return fd;
  if (errno == ENOENT || errno == ECONNREFUSED) return no_world_error(directory);
  if (errno == EAGAIN) return no_reply_error(directory);
  return system_error("connecting to the simulator process of " + directory);
}

Result<void> send_command(const std::string& directory, const Command& command) {
  const auto fd = connect_to(directory);
  if (!fd) return fd.error();
  Reply reply;
  if (::send(fd->get(), &command, sizeof command, MSG_NOSIGNAL) != ssize_t{sizeof command} ||
      ::recv(fd->get(), &reply, sizeof reply, 0) != ssize_t{sizeof reply}) {
    return no_reply_error(directory);
  }
  if (reply.failed == 0) return {};
  const std::string message(reply.message, ::strnlen(reply.message, sizeof reply.message));
  return Error{errc_from_number(reply.errc), message};
}

// Opens a descriptor of exactly this process; empty if it has ended. Uses the system call: glibc
// has the wrapper only from 2.36.
UniqueFd open_process(const LockOwner& owner) {
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, owner.pid, 0)));
  // Opened first, checked second: from here on the pid cannot become another process.
  if (process_start_time(owner.pid) != owner.start_time) process.reset();
  return process;
}

bool wait_for_exit(const UniqueFd& process, Duration timeout) {
  const TimePoint deadline = BootClock::now() + timeout;
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
    return system_error("killing the simulator process of " + directory);
  }
  return wait_for_exit(process, kReplyTimeout) ? Result<void>() : no_reply_error(directory);
}

// `text` is cut to the size of its field; the world server then finds nothing of that name.
Command command_for(Verb verb, int gpu, std::string_view text = {}) {
  Command command;
  text.copy(command.text, sizeof command.text - 1);
  command.verb = verb;
  command.gpu = static_cast<std::uint32_t>(gpu);  // a negative one is no GPU of any world either
  return command;
}

// The load is the share of time in kernels; the memory load is a large part of it.
}  // namespace

Result<ProcessRecord> record_of(const ProcessDemand& demand) {
  if (!(demand.load >= 0.0 && demand.load <= 1.0)) {
    return Error{Errc::invalid, "the load must be 0 to 1"};
  }
  constexpr double kMemoryShare = 0.6;
  const double permille = demand.load * 1000.0;
  return ProcessRecord{
      .kind = demand.kind,
      .memory_bytes = demand.vram_bytes,
      .load_permille = static_cast<std::uint32_t>(std::lround(permille)),
      .memory_load_permille = static_cast<std::uint32_t>(std::lround(permille * kMemoryShare))};
}

Result<void> stop_world(const std::string& directory) {
  auto lock = WorldLock::open(directory);
  if (!lock && lock.error().code == Errc::not_found) return no_world_error(directory);
  if (!lock) return std::move(lock).error();
  if (lock->try_acquire()) {
    remove_leftovers(directory);
    return no_world_error(directory);
  }
  const auto owner = lock->owner();
  const UniqueFd process = owner ? open_process(*owner) : UniqueFd();
  // The world server is starting or ending, or lives in another PID namespace.
  if (!process) return no_reply_error(directory);
  const TimePoint deadline = BootClock::now() + kReplyTimeout;
  auto sent = send_command(directory, command_for(Verb::stop, 0));
  if (!sent && sent.error().code == Errc::denied) return sent;
  const Duration left = sent ? deadline - BootClock::now() : Duration::zero();
  if (!wait_for_exit(process, left)) {
    if (auto killed = kill_process(process, directory); !killed) return killed;
    if (lock->try_acquire()) remove_leftovers(directory);
  }
  ::waitpid(owner->pid, nullptr, WNOHANG);  // in case it was this process's child
  return {};
}

Result<void> inject(const std::string& directory, int gpu, const Fault& fault) {
  Command command = command_for(Verb::inject, gpu);
  command.fault = fault;
  return send_command(directory, command);
}

Result<void> clear_faults(const std::string& directory, int gpu) {
  return send_command(directory, command_for(Verb::clear_faults, gpu));
}

Result<void> set_load(const std::string& directory, int gpu, const Workload& load) {
  return send_command(directory, load_command(gpu, load));
}

Result<void> set_heat(const std::string& directory, int gpu, double degrees) {
  Command command = command_for(Verb::set_heat, gpu);
  command.load = degrees;
  return send_command(directory, command);
}

Result<void> set_memory_heat(const std::string& directory, int gpu, double degrees) {
  Command command = command_for(Verb::set_memory_heat, gpu);
  command.load = degrees;
  return send_command(directory, command);
}

Result<void> unload_driver(const std::string& directory) {
  return send_command(directory, command_for(Verb::unload_driver, 0));
}

Result<void> load_driver(const std::string& directory, const std::string& version) {
  return send_command(directory, command_for(Verb::load_driver, 0, version));
}

Result<void> reload_driver(const std::string& directory, std::chrono::milliseconds away,
                           const std::string& version) {
  Command command = command_for(Verb::reload_driver, 0, version);
  command.load = std::chrono::duration<double>(away).count();
  return send_command(directory, command);
}

Result<void> unplug_gpu(const std::string& directory, int gpu) {
  return send_command(directory, command_for(Verb::unplug, gpu));
}

Result<void> plug_gpu(const std::string& directory, const std::string& uuid,
                      std::optional<int> index) {
  return send_command(directory, command_for(Verb::plug, index.value_or(kEveryGpu), uuid));
}

Result<void> step_world(const std::string& directory, std::chrono::milliseconds duration) {
  if (duration < kStep)
    return Error{Errc::invalid, "the time to advance must be at least one step of 10ms"};
  Command command = command_for(Verb::step, 0);
  for (auto left = duration / kStep; left > 0;) {
    command.count = std::min<std::uint64_t>(static_cast<std::uint64_t>(left), kStepBatch);
    if (auto done = send_command(directory, command); !done) return done;
    left -= static_cast<std::int64_t>(command.count);
  }
  return {};
}

Result<void> attach_process(const std::string& directory, int gpu, pid_t pid,
                            const ProcessDemand& demand) {
  const auto start_time = process_start_time(pid);
  if (!start_time) return Error{Errc::not_found, fmt::format("process {} not found", pid)};
  auto process = record_of(demand);
  if (!process) return std::move(process).error();
  Command command = command_for(Verb::attach, gpu);
  command.process = *process;
  command.process.pid = static_cast<std::uint32_t>(pid);
  command.process.start_time = *start_time;
  return send_command(directory, command);
}

Result<void> set_synthetic_processes(const std::string& directory, int gpu, int count,
                                     const ProcessDemand& each) {
  auto process = record_of(each);
  if (!process) return std::move(process).error();
  Command command = command_for(Verb::set_synthetic, gpu);
  command.process = *process;
  command.count = static_cast<std::uint64_t>(count);  // a negative one is too many
  return send_command(directory, command);
}

Result<void> add_ecc_errors(const std::string& directory, int gpu, const MemoryErrors& errors) {
  Command command = command_for(Verb::add_ecc_errors, gpu);
  command.location = errors.location;
  command.uncorrected = errors.uncorrected ? 1 : 0;
  command.count = errors.count;
  return send_command(directory, command);
}

Result<void> raise_xid(const std::string& directory, int gpu, std::uint32_t xid) {
  Command command = command_for(Verb::raise_event, gpu);
  command.count = xid;
  return send_command(directory, command);
}

Result<void> reset_gpu(const std::string& directory, int gpu, ResetMode as) {
  Command command = command_for(Verb::reset, gpu);
  command.count = as == ResetMode::driver ? 1 : 0;
  return send_command(directory, command);
}

}  // namespace gpuyard::sim
