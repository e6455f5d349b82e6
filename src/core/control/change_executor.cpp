#include "core/control/change_executor.h"

#include <utility>

#include "core/control/setting_change_executor.h"

namespace gpuyard::control {
namespace {

// The plan of a change without claims: clearing counters, or a reset.
class SingleCommandExecutor final : public ChangeExecutor {
 public:
  SingleCommandExecutor(ExecutorContext& context, const QueuedChange& order)
      : context_(context), change_(order) {}

  void start() override {
    const auto* const clear = std::get_if<ClearEcc>(&change_.task);
    if (clear == nullptr) {
      context_.reset_gpu(change_.dry_run,
                         [this](const Result<void>& done) { finish(done, ChangeOutcome::reset); });
    } else if (change_.dry_run) {
      finish({}, ChangeOutcome::planned);
    } else {
      context_.send_command(*clear, [this](const CommandCompletion& heard) {
        const auto error = heard.error();
        finish(error ? Result<void>(*error) : Result<void>(), ChangeOutcome::cleared);
      });
    }
  }

 private:
  void finish(const Result<void>& done, ChangeOutcome outcome) {
    ChangeResult change;
    if (!done) change.error = done.error();
    if (done) change.outcome = change_.dry_run ? ChangeOutcome::planned : outcome;
    context_.finish(std::move(change));
  }

  ExecutorContext& context_;
  const QueuedChange& change_;
};

}  // namespace

std::unique_ptr<ChangeExecutor> make_executor(ExecutorContext& context, const QueuedChange& order) {
  if (const auto kind = kind_of(order.task))
    return std::make_unique<SettingChangeExecutor>(context, order, *kind);
  return std::make_unique<SingleCommandExecutor>(context, order);
}

void GpuResetter::begin(const DeviceInfo& gpu, bool dry_run, std::function<bool()> quiet,
                        OnDone then) {
  if (closed_) {
    return post_result(std::move(then), Error{Errc::unavailable, "gpuyard is shutting down"});
  }
  if (is_active()) {
    return post_result(std::move(then), Error{Errc::busy, "another GPU is being reset"});
  }
  auto allowed = command_port_.check_reset(gpu);
  if (!allowed || dry_run) return post_result(std::move(then), std::move(allowed));
  state_ = State::waiting;
  gpu_ = gpu;
  others_idle_ = std::move(quiet);
  on_done_ = std::move(then);
  timeout_timer_ = loop_.call_after(kOthersIdleTimeout, [this] {
    finish(Error{
        Errc::busy,
        "a command for another GPU is still in progress, and a reset makes all GPUs unavailable"});
  });
  retry_timer_ = loop_.call_at(loop_.now(), [this] { retry(); });
}

void GpuResetter::retry() {
  if (state_ != State::waiting || closed_ || !others_idle_()) return;
  // A process may have begun to use the GPU meanwhile.
  if (auto allowed = command_port_.check_reset(gpu_); !allowed) return finish(allowed);
  state_ = State::resetting;
  timeout_timer_.reset();
  command_port_.reset_gpu(gpu_,
                          lifetime_.guard([this](const Result<void>& done) { finish(done); }));
}

void GpuResetter::finish(const Result<void>& done) {
  state_ = State::none;
  timeout_timer_.reset();
  if (const OnDone then = std::exchange(on_done_, nullptr)) then(done);
}

void GpuResetter::post_result(OnDone then, Result<void> answer) {
  loop_.post(
      lifetime_.guard([then = std::move(then), answer = std::move(answer)] { then(answer); }));
}

}  // namespace gpuyard::control
