#include "gpu/driver/driver_host.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/capabilities.h"
#include "base/denied_calls.h"
#include "base/log.h"
#include "base/mutex.h"
#include "gpu/device/event.h"
#include "gpu/driver/command_workers.h"
#include "gpu/driver/event_worker.h"
#include "gpu/driver/execute_command.h"
#include "gpu/driver/message.h"
#include "gpu/driver/read_workers.h"
#include "gpu/driver/reply_collector.h"

namespace gpuyard::driver {
namespace {

// True if the session is over: the driver was unloaded or replaced, and every reading says so.
bool is_driver_gone(const Sample& sample) {
  const auto& readings = sample.readings();
  return !readings.empty() &&
         std::all_of(readings.begin(), readings.end(), [](const Reading& reading) {
           const Missing* missing = reading.missing();
           return missing != nullptr && missing->reason == MissingReason::driver_gone;
         });
}

// Talks to one daemon at the other end of a socket. A datagram is sent whole, so the threads need
// no lock between them. A failed send means that the daemon is gone; the main thread notices that
// too.
class DriverHost {
 public:
  DriverHost(int socket, DriverSession session, const std::shared_ptr<Backend>& backend)
      : socket_(socket),
        driver_(std::move(session.driver)),
        gpu_count_(session.gpu_count),
        own_time_(session.own_time),
        backend_(backend),
        replies_([this](ReadReplies replies) { send_replies(std::move(replies)); }),
        read_workers_(
            backend, session.gpu_count,
            {[this](ReadReply reply) { send_reply(std::move(reply)); }, [this] { send_hello(); }}) {
  }

  // Reports which GPUs there are; called again whenever one has opened or changed.
  void send_hello() {
    const MutexLock lock(hello_mutex_);  // the last one sent must be the newest
    const Duration timeout =
        std::exchange(first_hello_, false) ? ReadWorkers::kOpenTimeout : Duration(0);
    send_to_daemon(
        Hello{Inventory{driver_, read_workers_.devices(timeout), own_time_}, Errc::internal, ""});
  }

  // Serves until the daemon closes its end.
  void serve() {
    const EventWorker events(backend_,
                             [this](DeviceEvent event) { send_to_daemon(std::move(event)); });
    for (;;) {
      send_late_replies();
      auto message = receive_request(socket_, Wait::yes);
      if (!message) break;
      std::visit([this](const auto& request) { handle(request); }, *message);
    }
    // Makes a thread inside send() return, so that the read workers can be waited for.
    ::shutdown(socket_, SHUT_RDWR);
  }

 private:
  void handle(const ReadRequests& requests) {
    replies_.expect(requests, BootClock::now());
    for (const ReadRequest& request : requests) {
      if (read_workers_.read(request)) continue;
      const Missing why{MissingReason::failed,
                        "the driver-host does not have this GPU, or is too busy"};
      replies_.add(
          {request.id, request.device, missing_sample(request.probes, why, BootClock::now())});
    }
  }

  // Returns when the daemon has sent something, or when no reply waits for that of another GPU.
  void send_late_replies() {
    while (const auto deadline = replies_.deadline()) {
      const TimePoint now = BootClock::now();
      if (*deadline <= now) {  // also where the daemon has sent more in the meantime
        replies_.send_late(now);
        continue;
      }
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - now);
      pollfd readable{socket_, POLLIN, 0};
      if (::poll(&readable, 1, static_cast<int>(left.count())) > 0) return;
    }
  }

  void handle(const CommandRequest& request) {
    if (is_change(request.command)) {
      return send_reply(
          refused_reply(request, {Errc::denied, "the driver-host changes no settings"}));
    }
    const auto index = read_workers_.index_of(request.device);
    if (!index) {
      const Error why{Errc::not_found, fmt::format("no GPU {} is open", request.device)};
      return send_reply(refused_reply(request, why));
    }
    if (auto sent = command_workers().send(*index, request); !sent) {
      send_reply(refused_reply(request, sent.error()));
    }
  }

  // Made at the first command: a host that only reads has no threads for it.
  CommandWorkers& command_workers() {
    if (!command_workers_) {
      command_workers_.emplace(backend_, gpu_count_,
                               [this](const CommandReply& reply) { send_reply(reply); });
    }
    return *command_workers_;
  }

  void send_reply(const CommandReply& reply) {
    if (!send_to_daemon(reply)) log::error("Failed to send response to caller");
  }

  void send_reply(ReadReply reply) {
    if (!is_driver_gone(reply.sample)) return replies_.add(std::move(reply));
    send_to_daemon(ReadReplies{std::move(reply)});
    // Ends this host; the daemon starts another one, which loads the library again.
    ::shutdown(socket_, SHUT_RDWR);
  }

  void send_replies(ReadReplies replies) {
    const DriverHostMessage message(std::move(replies));
    const auto sent = send_message(socket_, message, Wait::yes);
    const auto& all = std::get<ReadReplies>(message);
    if (sent || sent.error().code != Errc::invalid || all.size() == 1) return;
    for (const ReadReply& one : all) send_to_daemon(ReadReplies{one});
  }

  // Returns false if the daemon is gone.
  bool send_to_daemon(const DriverHostMessage& message) {
    return send_message(socket_, message, Wait::yes).ok();
  }

  const int socket_;
  const DriverInfo driver_;
  const std::uint32_t gpu_count_;
  const bool own_time_;
  const std::shared_ptr<Backend> backend_;
  Mutex hello_mutex_;
  bool first_hello_ GUARDED_BY(hello_mutex_) = true;
  ReplyCollector replies_;
  ReadWorkers read_workers_;  // declared after the members that its threads use
  std::optional<CommandWorkers> command_workers_;  // used by the main thread only
};

}  // namespace

void serve_driver_host(UniqueFd socket, const MakeBackend& make_backend) {
  auto made = make_backend();
  auto session = made ? (*made)->start() : Result<DriverSession>(made.error());
  if (!session) {
    const Hello nothing{std::nullopt, session.error().code, session.error().text()};
    static_cast<void>(send_message(socket.get(), nothing, Wait::yes).ok());
    return;
  }
  DriverHost host(socket.get(), *std::move(session), std::shared_ptr<Backend>(*std::move(made)));
  host.send_hello();
  host.serve();
}

UniqueFd begin_child_process(std::string_view verb, std::uint64_t capabilities) {
  // Ctrl-C in a terminal reaches the whole process group; only the daemon decides when the host
  // ends.
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGTERM, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::fcntl(kDriverHostSocket, F_SETFD, FD_CLOEXEC) != 0) {
    log::error("{} is started by `gpuyard serve` and must not be run by hand", verb);
    ::_exit(2);
  }
  // The filter is not worth no_new_privs: see spawn_host(). A daemon that has given up privileges
  // has said why there is no filter. CAP_SYS_ADMIN, which the filter needs then, may go only
  // afterwards.
  static_cast<void>(deny_unused_calls(NewPrivileges::required).ok());
  keep_only_capabilities(capabilities);
  return UniqueFd(kDriverHostSocket);
}

void run_driver_host_process(const MakeBackend& make_backend) {
  serve_driver_host(begin_child_process("driver-host", 0), make_backend);
  ::_exit(0);
}

}  // namespace gpuyard::driver
