#include "gpu/driver/setter.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/mutex.h"
#include "base/try.h"
#include "gpu/driver/change_workers.h"
#include "gpu/driver/command_workers.h"
#include "gpu/driver/execute_command.h"
#include "gpu/driver/message.h"
#include "gpu/driver/read_workers.h"
#include "gpu/driver/setter_record.h"

namespace gpuyard::driver {
namespace {

constexpr Duration kTurnPollInterval = std::chrono::milliseconds(20);

ChangeLine change_of(const CommandRequest& request, const std::optional<SettingState>& before) {
  ChangeLine change;
  change.step = ChangeStep::change;
  change.gpu = request.device;
  change.puts_back = request.puts_back;
  if (const auto* const apply = std::get_if<Apply>(&request.command)) {
    change.setting = apply->setting.kind;
    change.value = apply->setting.value;
    if (before) change.before = before->now;
  }
  return change;
}

UniqueFd handle_of_this_process() {
  // glibc has a wrapper for this system call only since 2.36.
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
}

// Decides on each change, on its GPU's own thread. Shared with these threads, so that one that is
// left behind in a driver call still has it.
class LoggedExecutor {
 public:
  LoggedExecutor(int socket, const SetterOptions& options)
      : socket_(socket), policy_(options.policy), log_(options.log) {}

  CommandReply execute(Backend& backend, std::uint32_t index, const CommandRequest& request) {
    if (request.puts_back) wait_for_turn(request.device);
    // Another setter may have taken over: changes still in the socket must not be made.
    if (is_over()) return refused_reply(request, terminated_error(index));
    return execute_command(backend, request, [&](const std::optional<SettingState>& before) {
      return admit(index, request, before);
    });
  }

  // Writes the result of a change, after its reply, which must not wait for it. A change that was
  // given up has none.
  void finish(const CommandReply& reply) {
    if (!reply.called) return;  // it has no line, or names a GPU whose change has one
    MutexLock lock(lines_mutex_);
    const auto line = lines_.extract(reply.device);
    lock.unlock();
    if (line) log_.finish(line.mapped(), reply);
  }

  void end() { ended_ = true; }
  void flush() { log_.flush(); }

 private:
  void wait_for_turn(const DeviceId& gpu) {
    while (!is_over()) {
      const auto wait = log_.rate_limit_delay(gpu, policy_.changes_a_minute);
      if (!wait) return;
      std::this_thread::sleep_for(std::min(*wait, kTurnPollInterval));
    }
  }

  // True once the daemon has closed its end, though the main thread may not know it yet.
  bool is_over() const {
    if (ended_) return true;
    pollfd polled{socket_, POLLRDHUP, 0};
    return ::poll(&polled, 1, 0) > 0 && (polled.revents & (POLLRDHUP | POLLHUP)) != 0;
  }

  Result<void> admit(std::uint32_t index, const CommandRequest& request,
                     const std::optional<SettingState>& before) {
    const auto* const apply = std::get_if<Apply>(&request.command);
    const bool earlier = request.puts_back && apply != nullptr && is_earlier_value(request, *apply);
    if (apply != nullptr && !earlier) {
      if (before && before->allowed) report_bounds(index, apply->setting.kind, *before->allowed);
      GPUYARD_TRY(check_bounds(policy_, apply->setting));
    }
    const ChangeLine change = change_of(request, before);
    auto begun = log_.begin(change, policy_.changes_a_minute);
    while (!begun && begun.error().code == Errc::busy) {
      const Duration wait = log_.rate_limit_delay(request.device, policy_.changes_a_minute)
                                .value_or(kTurnPollInterval);
      if (!request.puts_back) return rate_limit_error(wait);
      if (is_over()) return terminated_error(index);
      std::this_thread::sleep_for(std::min(wait, kTurnPollInterval));
      begun = log_.begin(change, policy_.changes_a_minute);
    }
    if (begun) {
      const MutexLock lock(lines_mutex_);
      lines_[request.device] = *begun;
      return {};
    }
    const bool by_default = request.puts_back && apply != nullptr && before &&
                            before->by_default == apply->setting.value;
    if (!earlier && !by_default) {
      return Error{Errc::unavailable,
                   "nothing was changed, because the change could not be recorded first: " +
                       begun.error().text()};
    }
    log_.record_missed(change);
    log::warning("GPU {}: {} restored without a line in the log of changes: {}", index,
                 display_name(apply->setting.kind), begun.error().text());
    return {};
  }

  Error rate_limit_error(Duration wait) const {
    return {Errc::busy, fmt::format("the limit is {} changes per GPU and minute "
                                    "(control.gpu_changes_a_minute); try again in {} s",
                                    policy_.changes_a_minute,
                                    std::chrono::ceil<std::chrono::seconds>(wait).count())};
  }

  // True if the GPU had this value before a setter changed it, or a clock is unlocked.
  bool is_earlier_value(const CommandRequest& request, const Apply& apply) const {
    const auto& value = apply.setting.value;
    return !value || log_.was_earlier_value(request.device, apply.setting.kind, value);
  }

  void report_bounds(std::uint32_t index, SettingKind kind, const SettingValue& range) {
    if (kind != SettingKind::power_limit) return;
    const std::string text = unusable_bounds(policy_, range);
    const MutexLock lock(reported_mutex_);
    if (!text.empty() && reported_.insert(index).second) log::warning("GPU {}: {}", index, text);
  }

  const int socket_;
  const SetterPolicy policy_;
  std::atomic<bool> ended_ = false;
  Mutex lines_mutex_;
  // Of the log, of the changes in progress.
  std::map<DeviceId, std::uint64_t> lines_ GUARDED_BY(lines_mutex_);
  Mutex reported_mutex_;
  std::set<std::uint32_t> reported_ GUARDED_BY(reported_mutex_);  // GPUs whose bounds were reported
  ChangeLog log_;
};

// Talks to one daemon at the other end of a socket, as the driver-host does.
class Setter {
 public:
  Setter(int socket, DriverSession session, const std::shared_ptr<Backend>& backend,
         const SetterOptions& options)
      : socket_(socket),
        driver_(std::move(session.driver)),
        own_time_(session.own_time),
        version_(options.version),
        executor_(std::make_shared<LoggedExecutor>(socket, options)),
        read_workers_(backend, session.gpu_count,
                      {[](const ReadReply&) {}, [this] { send_hello(); }}) {}

  ~Setter() {
    change_workers_.reset();
    executor_->flush();  // a thread that is left behind still has the log
  }
  Setter(const Setter&) = delete;
  Setter& operator=(const Setter&) = delete;

  Result<void> start(const std::shared_ptr<Backend>& backend, std::uint32_t gpu_count) {
    auto started = ChangeWorkers::start(
        backend, gpu_count,
        [this, changer = executor_](Backend& driver, std::uint32_t index,
                                    const CommandRequest& request) {
          if (read_workers_.index_of(request.device) == index)
            return changer->execute(driver, index, request);
          const Error why{Errc::not_found, fmt::format("no GPU {} is open", request.device)};
          return refused_reply(request, why);
        },
        [this](const CommandReply& reply) {
          if (!send_to_daemon(reply)) log::error("Failed to send response to caller");
          executor_->finish(reply);
        },
        [this](const Error& why) { refuse(why); });
    if (!started) return std::move(started).error();
    change_workers_ = *std::move(started);
    {
      const MutexLock lock(hello_mutex_);
      daemon_sockets_ = change_workers_->take_sockets();
      has_workers_ = true;
    }
    send_hello();
    return {};
  }

  // Serves until the daemon closes its end.
  void serve() {
    for (;;) {
      const auto record = receive_record(socket_, Wait::yes);
      if (!record) {
        if (record.error().code == Errc::invalid) refuse(record.error());
        break;
      }
      if (record->action != SetterRecord::Action::ping) {
        refuse({Errc::invalid, "a change has to come on the socket of its GPU"});
        break;
      }
      static_cast<void>(send_to_daemon(Pong{}));
    }
    executor_->end();
    end_serving();
  }

 private:
  void send_hello() {
    const MutexLock lock(hello_mutex_);  // the last one sent must be the newest
    if (!has_workers_) return;
    const Duration timeout =
        std::exchange(first_hello_, false) ? ReadWorkers::kOpenTimeout : Duration(0);
    const DriverHostMessage hello =
        Hello{Inventory{driver_, read_workers_.devices(timeout), own_time_}, Errc::internal, "",
              version_};
    const UniqueFd handle = handle_of_this_process();
    const std::vector<UniqueFd> sockets = std::exchange(daemon_sockets_, {});
    std::vector<int> descriptors = {handle.get()};
    for (const UniqueFd& one : sockets) descriptors.push_back(one.get());
    static_cast<void>(send_message(socket_, hello, descriptors, Wait::yes).ok());
  }

  void refuse(const Error& why) {
    log::error("invalid request from the daemon: {}; exiting", why.text());
    send_refusal(socket_, why, version_);
    end_serving();
  }
  // Makes serve() return, and each thread that sends, so that they can be waited for.
  void end_serving() { ::shutdown(socket_, SHUT_RDWR); }

  bool send_to_daemon(const DriverHostMessage& message) {
    return send_message(socket_, message, Wait::yes).ok();
  }

  const int socket_;
  const DriverInfo driver_;
  const bool own_time_;
  const std::string version_;
  Mutex hello_mutex_;
  bool first_hello_ GUARDED_BY(hello_mutex_) = true;
  bool has_workers_ GUARDED_BY(hello_mutex_) = false;
  std::vector<UniqueFd> daemon_sockets_ GUARDED_BY(hello_mutex_);  // for the first Hello
  const std::shared_ptr<LoggedExecutor> executor_;
  ReadWorkers read_workers_;  // opens the GPUs; declared after the members that its threads use
  std::unique_ptr<ChangeWorkers> change_workers_;
};

}  // namespace

Result<void> check_bounds(const SetterPolicy& policy, const Setting& setting) {
  if (setting.kind != SettingKind::power_limit || !setting.value) return {};
  const auto refused = [&](std::string_view where, std::string_view key, std::int64_t bound) {
    return Error{Errc::invalid,
                 fmt::format("{} is {} the {} that the administrator allows ({})", text_of(setting),
                             where, text_of(power_limit(bound)), key)};
  };
  if (policy.lowest_mw && setting.value->lowest < *policy.lowest_mw) {
    return refused("below", "control.lowest_w", *policy.lowest_mw);
  }
  if (policy.highest_mw && setting.value->highest > *policy.highest_mw) {
    return refused("above", "control.highest_w", *policy.highest_mw);
  }
  return {};
}

std::string unusable_bounds(const SetterPolicy& policy, const SettingValue& range) {
  const auto& [lowest, highest] = std::pair(policy.lowest_mw, policy.highest_mw);
  std::string too_narrow;
  std::string too_wide;
  const auto name = [](std::string& text, std::string_view key, std::int64_t bound) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : " and ", key, text_of(power_limit(bound)));
  };
  if (lowest && *lowest > range.highest) name(too_narrow, "control.lowest_w", *lowest);
  if (highest && *highest < range.lowest) name(too_narrow, "control.highest_w", *highest);
  if (lowest && *lowest < range.lowest) name(too_wide, "control.lowest_w", *lowest);
  if (highest && *highest > range.highest) name(too_wide, "control.highest_w", *highest);
  const std::string driver = "the driver allows " + range_text(SettingKind::power_limit, range);
  if (!too_narrow.empty()) {
    return fmt::format("no power limit can be set because of {}: {}", too_narrow, driver);
  }
  return too_wide.empty() ? "" : fmt::format("{} without effect: {}", too_wide, driver);
}

void send_refusal(int socket, const Error& why, const std::string& version) {
  const Hello nothing{std::nullopt, why.code, why.text(), version};
  static_cast<void>(send_message(socket, nothing, Wait::yes).ok());
}

void serve_setter(UniqueFd socket, const MakeBackend& make_backend, const SetterOptions& options) {
  auto made = make_backend();
  auto session = made ? (*made)->start() : Result<DriverSession>(made.error());
  if (!session) return send_refusal(socket.get(), session.error(), options.version);
  const std::shared_ptr<Backend> backend(*std::move(made));
  const std::uint32_t gpu_count = session->gpu_count;
  Setter setter(socket.get(), *std::move(session), backend, options);
  if (auto started = setter.start(backend, gpu_count); !started)
    return send_refusal(socket.get(), started.error(), options.version);
  setter.serve();
}

}  // namespace gpuyard::driver
