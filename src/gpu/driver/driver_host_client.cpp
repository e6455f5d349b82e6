#include "gpu/driver/driver_host_client.h"

#include <linux/capability.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/capabilities.h"
#include "base/command_host.h"
#include "base/files.h"
#include "base/helper_socket.h"
#include "base/log.h"
#include "base/spawn.h"
#include "gpu/driver/driver_host.h"
#include "gpu/driver/setter_record.h"

namespace gpuyard::driver {

DriverHostClient::DriverHostClient(Loop& loop, Spawn spawn, DriverHostListener& listener,
                                   DriverHostKind kind)
    : loop_(loop), spawn_(std::move(spawn)), listener_(listener), kind_(std::move(kind)) {}

DriverHostClient::~DriverHostClient() {
  end_process();
}

void DriverHostClient::start() {
  if (paused_) return;
  if (departing_.size() >= kMaxDeparting) {
    schedule_start(kMaxRestartDelay);
    return listener_.on_host_down(
        fmt::format("earlier {}s are stuck inside the driver; another one starts when one of them "
                    "exits",
                    kind_.name));
  }
  auto process = spawn_();
  if (!process) {
    schedule_start(kMaxRestartDelay);
    return listener_.on_host_down(process.error().text() + "; retrying");
  }
  process_ = *std::move(process);
  hello_received_ = false;
  started_at_ = last_reply_at_ = loop_.now();
  pending_reads_ = 0;
  readable_ = loop_.watch(process_.socket.get(), [this] { on_readable(); });
  watchdog_ = loop_.call_after(kHelloTimeout, [this] {
    abandon_host(
        fmt::format("the driver did not initialise within {} s",
                    std::chrono::duration_cast<std::chrono::seconds>(kHelloTimeout).count()));
  });
}

bool DriverHostClient::read(const ReadRequests& requests) {
  if (!hello_received_ || !send_message(process_.socket.get(), requests, Wait::no)) return false;
  if (pending_reads_ == 0) last_reply_at_ = loop_.now();
  pending_reads_ += requests.size();
  return true;
}

bool DriverHostClient::send_command(const CommandRequest& request) {
  if (!hello_received_) return false;
  if (!kind_.is_setter) return send_message(process_.socket.get(), request, Wait::no).ok();
  const auto record = record_of(request);
  const auto index = indexes_.find(request.device);
  if (!record || index == indexes_.end() || index->second >= change_sockets_.size()) return false;
  return send_record(change_sockets_[index->second].get(), *record, Wait::no).ok();
}

bool DriverHostClient::is_available_soon() const {
  if (process_.socket) return true;
  return !paused_ && restart_timer_ && restart_at_ - loop_.now() <= kImminentRestartDelay;
}

void DriverHostClient::start_now() {
  if (paused_ || process_.socket || !restart_timer_) return;
  restart_timer_.reset();
  start();
}

void DriverHostClient::handle(const CommandReply& reply) {
  if (hello_received_) listener_.on_command_reply(reply);
}

void DriverHostClient::handle(const ReadReplies& replies) {
  last_reply_at_ = loop_.now();
  pending_reads_ -= std::min(replies.size(), pending_reads_);
  listener_.on_replies(replies);
}

void DriverHostClient::handle(const DeviceEvent& event) {
  if (hello_received_) listener_.on_event(event);
}

void DriverHostClient::handle(const Pong&) {
  last_reply_at_ = loop_.now();
  pending_reads_ = 0;
}

void DriverHostClient::check_silence() {
  if (pending_reads_ > 0 && loop_.now() - last_reply_at_ >= kSilenceTimeout) {
    return abandon_host(kind_.name + " has not responded for 30 s");
  }
  if (kind_.is_setter && pending_reads_ == 0) {
    last_reply_at_ = loop_.now();
    pending_reads_ = 1;
    static_cast<void>(send_record(process_.socket.get(), SetterRecord(), Wait::no).ok());
  }
  watchdog_ = loop_.call_after(kSilenceTimeout / 6, [this] { check_silence(); });
}

void DriverHostClient::on_readable() {
  // Reads a bounded batch, so that a child that floods us cannot block the loop.
  constexpr int kBatch = 64;
  for (int i = 0; i < kBatch && process_.socket; ++i) {
    std::vector<UniqueFd> descriptors;
    auto message = receive_message(process_.socket.get(), Wait::no, &descriptors);
    if (!descriptors.empty()) take_descriptors(std::move(descriptors));
    if (message) {
      const bool awaited = pending_reads_ > 0 || std::holds_alternative<CommandReply>(*message);
      std::visit([this](const auto& what) { handle(what); }, *message);
      // Nothing more is expected now. The loop calls again if there is more.
      if (awaited && pending_reads_ == 0) return;
    } else if (message.error().code == Errc::busy) {
      return;
    } else {
      return abandon_host(message.error().code == Errc::unavailable ? kind_.name + " exited"
                                                                    : message.error().text());
    }
  }
}

void DriverHostClient::take_descriptors(std::vector<UniqueFd> descriptors) {
  if (process_.pid <= 0 && !process_.pidfd) process_.pidfd = std::move(descriptors.front());
  if (!kind_.is_setter || descriptors.size() < 2) return;
  descriptors.erase(descriptors.begin());
  change_sockets_ = std::move(descriptors);
}

// Returns false if a GPU has no socket: too many files are open.
bool DriverHostClient::take_indexes(const Inventory& inventory) {
  indexes_.clear();
  for (const DeviceInfo& device : inventory.devices) indexes_[device.id] = device.index;
  return std::ranges::all_of(inventory.devices, [&](const DeviceInfo& device) {
    return device.index < change_sockets_.size();
  });
}

void DriverHostClient::handle(const Hello& hello) {
  if (kind_.is_setter && hello.version != kind_.version) {
    return abandon_host(fmt::format("the {} is of version {}, and this daemon is of version {}",
                                    kind_.name, hello.version, kind_.version));
  }
  if (hello.fleet) {
    if (kind_.is_setter && !take_indexes(*hello.fleet))
      return abandon_host("the setter's sockets did not all arrive");
    if (!std::exchange(hello_received_, true)) check_silence();
    return listener_.on_inventory(*hello.fleet);
  }
  end_process();
  schedule_start(kMaxRestartDelay);  // a driver may be installed or loaded later
  listener_.on_no_driver({hello.error_code, hello.error});
}

void DriverHostClient::abandon_host(const std::string& why) {
  // A host that ran for a while is restarted quickly; one that crashes again and again is not, even
  // if its Hello succeeds.
  if (loop_.now() - started_at_ > kMaxRestartDelay) restart_delay_ = kMinRestartDelay;
  end_process();
  schedule_start(restart_delay_);
  restart_delay_ = std::min(restart_delay_ * 2, kMaxRestartDelay);
  listener_.on_host_down(why + "; starting another");
}

void DriverHostClient::end_process() {
  watchdog_.reset();
  readable_.reset();
  process_.socket.reset();
  change_sockets_.clear();
  indexes_.clear();
  hello_received_ = false;
  // Reaped when the kernel releases it. A host stuck inside the driver stays behind; it holds
  // nothing of ours.
  const pid_t pid = std::exchange(process_.pid, -1);
  UniqueFd pidfd = std::move(process_.pidfd);
  if (pid > 0) {
    ::kill(pid, SIGKILL);
    if (::waitpid(pid, nullptr, WNOHANG) != 0) return;
  }
  if (!pidfd) return;
  const int fd = pidfd.get();
  departing_.push_back(
      {pid, std::move(pidfd), loop_.watch(fd, [this, pid, fd] { reap(pid, fd); })});
}

void DriverHostClient::reap(pid_t pid, int pidfd) {
  if (pid > 0) ::waitpid(pid, nullptr, WNOHANG);
  departing_.remove_if([pidfd](const DepartingHost& one) { return one.pidfd.get() == pidfd; });
  if (on_paused_ && departing_.empty()) notify_paused({});
}

void DriverHostClient::pause(std::function<void(Result<void>)> on_paused) {
  notify_paused(Error{Errc::unavailable, "the driver is about to be closed again"});
  on_paused_ = std::move(on_paused);
  restart_timer_.reset();
  if (!std::exchange(paused_, true)) {
    end_process();
    listener_.on_host_down("the driver is closed for a GPU reset and will be reopened");
  }
  if (departing_.empty()) {
    end_timer_ = loop_.call_after(Duration(0), [this] { notify_paused({}); });
    return;
  }
  end_timer_ = loop_.call_after(kExitTimeout, [this] {
    notify_paused(
        Error{Errc::timed_out,
              fmt::format("the driver did not release its process within {} s",
                          std::chrono::duration_cast<std::chrono::seconds>(kExitTimeout).count())});
  });
}

void DriverHostClient::resume() {
  if (!std::exchange(paused_, false)) return;
  notify_paused(Error{Errc::unavailable, "the driver has already been reopened"});
  restart_delay_ = kMinRestartDelay;
  start();
}

void DriverHostClient::restart(const std::string& why) {
  if (!paused_ && hello_received_) abandon_host(why);
}

void DriverHostClient::notify_paused(Result<void> result) {
  end_timer_.reset();
  if (auto on_paused = std::exchange(on_paused_, nullptr)) on_paused(std::move(result));
}

void DriverHostClient::schedule_start(Duration delay) {
  restart_at_ = loop_.now() + delay;
  restart_timer_ = loop_.call_at(restart_at_, [this] {
    restart_timer_.reset();
    start();
  });
}

// Starts our own program with one socket and nothing else.
Result<DriverHostProcess> spawn_host(const std::vector<std::string>& arguments,
                                     const std::string& verb) {
  auto pair = make_socket_pair();
  if (!pair) return Error(pair.error()).in("the " + verb);
  static_assert(kDriverHostSocket == kFirstPassedFd);
  SpawnOptions options{.arguments = {verb},
                       .passed_fds = {pair->theirs.get()},  // stderr is its log
                       .capabilities = capability_bit(CAP_SYS_ADMIN)};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  // NVIDIA's library may have to run nvidia-modprobe, which becomes root to make missing device
  // files. A process with no_new_privs, as a daemon without CAP_SYS_ADMIN is, cannot start it.
  const bool may_set = (effective_capabilities() & capability_bit(CAP_SYS_ADMIN)) != 0;
  const auto child = may_set ? spawn(options) : spawn_unconfined(options);
  if (!child) return Error(child.error()).in("the " + verb);

  // glibc has a wrapper for this system call only since 2.36.
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, *child, 0)));
  if (!pidfd) {
    auto error = system_error("watching the " + verb);
    ::kill(*child, SIGKILL);
    ::waitpid(*child, nullptr, 0);  // it has no driver yet, so it ends at once
    return error;
  }
  return DriverHostProcess{*child, std::move(pidfd), std::move(pair->ours)};
}

}  // namespace gpuyard::driver
