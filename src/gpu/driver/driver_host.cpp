#include "gpu/driver/driver_host.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/capabilities.h"
#include "base/denied_calls.h"
#include "base/log.h"
#include "gpu/device/event.h"
#include "gpu/driver/command_workers.h"
#include "gpu/driver/execute_command.h"
#include "gpu/driver/message.h"
#include "gpu/driver/read_workers.h"

namespace gpuyard::driver {
namespace {

// True if the session is over: the driver was unloaded or replaced, and every reading says so.
bool driver_is_gone(const Sample& sample) {
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
class Host {
 public:
  Host(int socket, DriverSession session, const std::shared_ptr<Backend>& backend)
      : socket_(socket),
        driver_(std::move(session.driver)),
        gpu_count_(session.gpu_count),
        own_time_(session.own_time),
        backend_(backend),
        readers_(backend, session.gpu_count,
                 {[this](ReadReply reply) { answer(std::move(reply)); }, [this] { greet(); }}) {}

  // Tells which GPUs there are; called again whenever one has opened or changed.
  void greet() {
    const std::lock_guard one_at_a_time(greeting_);  // the last one sent must be the newest
    const Duration patience = std::exchange(first_, false) ? Readers::kOpenPatience : Duration(0);
    say(Hello{Fleet{driver_, readers_.devices(patience), own_time_}, Errc::internal, ""});
  }

  // Serves until the daemon closes its end.
  void serve() {
    const EventThread events(backend_, [this](DeviceEvent event) { say(std::move(event)); });
    for (;;) {
      auto message = receive_to_host(socket_, Wait::yes);
      if (!message) break;
      std::visit([this](const auto& request) { handle(request); }, *message);
    }
    // Makes a thread inside send() return, so that the readers can be waited for.
    ::shutdown(socket_, SHUT_RDWR);
  }

 private:
  void handle(const ReadRequest& request) {
    if (readers_.read(request)) return;
    const Missing why{MissingReason::failed,
                      "the driver-host does not have this GPU, or is too busy"};
    say(ReadReply{request.id, request.device,
                  missing_sample(request.probes, why, BootClock::now())});
  }

  void handle(const CommandRequest& request) {
    if (is_change(request.command)) {
      return answer(refusal(request, {Errc::denied, "the driver-host changes no settings"}));
    }
    const auto index = readers_.index_of(request.device);
    if (!index) {
      const Error why{Errc::not_found, fmt::format("no GPU {} is open", request.device)};
      return answer(refusal(request, why));
    }
    if (auto sent = commanders().send(*index, request); !sent) {
      answer(refusal(request, sent.error()));
    }
  }

  // Made at the first command: a host that only reads has no threads for it.
  Commanders& commanders() {
    if (!commanders_) {
      commanders_.emplace(backend_, gpu_count_,
                          [this](const CommandReply& reply) { answer(reply); });
    }
    return *commanders_;
  }

  void answer(const CommandReply& reply) {
    if (!say(reply)) log::error("Failed to send response to caller");
  }

  void answer(ReadReply reply) {
    const bool over = driver_is_gone(reply.sample);
    say(std::move(reply));
    // Ends this host; the daemon starts another one, which loads the library anew.
    if (over) ::shutdown(socket_, SHUT_RDWR);
  }

  // Returns false if the daemon is gone.
  bool say(const FromHost& message) { return send_message(socket_, message, Wait::yes).ok(); }

  const int socket_;
  const DriverInfo driver_;
  const std::uint32_t gpu_count_;
  const bool own_time_;
  const std::shared_ptr<Backend> backend_;
  std::mutex greeting_;
  bool first_ = true;
  Readers readers_;                       // declared after the members that its threads use
  std::optional<Commanders> commanders_;  // used by the main thread only
};

}  // namespace

void serve_host(UniqueFd socket, const MakeBackend& make_backend) {
  auto made = make_backend();
  auto session = made ? (*made)->start() : Result<DriverSession>(made.error());
  if (!session) {
    const Hello nothing{std::nullopt, session.error().code, session.error().text()};
    static_cast<void>(send_message(socket.get(), nothing, Wait::yes).ok());
    return;
  }
  Host host(socket.get(), *std::move(session), std::shared_ptr<Backend>(*std::move(made)));
  host.greet();
  host.serve();
}

UniqueFd begin_child_process(std::string_view verb, std::uint64_t capabilities) {
  // Ctrl-C in a terminal reaches the whole process group; only the daemon decides when the host
  // ends.
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGTERM, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::fcntl(kHostSocket, F_SETFD, FD_CLOEXEC) != 0) {
    log::error("{} is started by `gpuyard serve` and must not be run by hand", verb);
    ::_exit(2);
  }
  // Not at the price of no_new_privs: see spawn_host(). A daemon that has given up privileges has
  // said why there is no filter. CAP_SYS_ADMIN, which the filter needs then, may go only
  // afterwards.
  static_cast<void>(deny_unused_calls(NewPrivileges::stay).ok());
  keep_only_capabilities(capabilities);
  return UniqueFd(kHostSocket);
}

void run_host_process(const MakeBackend& make_backend) {
  serve_host(begin_child_process("driver-host", 0), make_backend);
  ::_exit(0);
}

// Shared between its thread and EventThread, so that a thread left behind still has its data.
class EventThread::Worker {
 public:
  Worker(std::shared_ptr<Backend> backend, std::function<void(DeviceEvent)> told)
      : told_(std::move(told)), backend_(std::move(backend)) {}

  static void start(const std::shared_ptr<Worker>& self) {
    std::thread([self] { self->run(); }).detach();
  }

  // After this returns, `told` is not running and never runs again.
  void stop(Duration patience) {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, patience, [&] { return stopped_; });
    muted_ = true;
    changed_.wait(lock, [&] { return !telling_; });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stopping_ && wait_once(lock)) {
    }
    // The waiting thread may unload the driver next; this thread must no longer use it.
    auto backend = std::exchange(backend_, nullptr);
    lock.unlock();
    backend.reset();
    lock.lock();
    stopped_ = true;
    changed_.notify_all();
  }

  // Returns false if there will never be an event.
  bool wait_once(std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    const TimePoint began = BootClock::now();
    auto next = backend_->next_event(kSlice);
    lock.lock();
    if (!next) return recover(lock, next.error());
    pause_ = kFirstPause;
    const TimePoint now = BootClock::now();
    if (*next && limit_.admit(**next, now)) tell(lock, *std::move(*next));
    for (DeviceEvent& lost : limit_.take_refused(EventSource::driver, now)) {
      tell(lock, std::move(lost));
    }
    // The driver returned before its wait was over.
    const bool too_soon = !*next && now - began < kSlice / 2;
    if (too_soon) changed_.wait_for(lock, kFirstPause, [&] { return stopping_; });
    return true;
  }

  bool recover(std::unique_lock<std::mutex>& lock, const Error& error) {
    if (error.code == Errc::unsupported) {
      log::info("no events from the driver: {}", error.text());
      return false;
    }
    // Logs a repeated reason once: a driver may fail at once, for ever.
    if (std::exchange(said_, error.text()) != error.text()) {
      log::info("no events from the driver for now: {}", error.text());
    }
    changed_.wait_for(lock, pause_, [&] { return stopping_; });
    pause_ = std::min(pause_ * 2, kLongestPause);
    return true;
  }

  // Runs told_ without the lock, unless the worker is muted.
  void tell(std::unique_lock<std::mutex>& lock, DeviceEvent event) {
    if (muted_) return;
    telling_ = true;
    lock.unlock();
    told_(std::move(event));
    lock.lock();
    telling_ = false;
    changed_.notify_all();
  }

  const std::function<void(DeviceEvent)> told_;

  // Used only by its own thread:
  EventLimit limit_{kBurst, kEachSecond};
  Duration pause_ = kFirstPause;
  std::string said_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Backend> backend_;
  bool stopping_ = false;
  bool stopped_ = false;
  bool muted_ = false;    // told_ must not be called any more
  bool telling_ = false;  // inside told_
};

EventThread::EventThread(std::shared_ptr<Backend> backend, std::function<void(DeviceEvent)> told)
    : worker_(std::make_shared<Worker>(std::move(backend), std::move(told))) {
  Worker::start(worker_);
}

EventThread::~EventThread() {
  worker_->stop(kFarewell);
}

}  // namespace gpuyard::driver
