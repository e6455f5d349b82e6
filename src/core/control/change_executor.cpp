#include "core/control/change_executor.h"

#include <utility>

#include "core/control/setting_change_executor.h"

namespace gpuyard::control {
namespace {

// Carries out a change without claims: clearing counters, or a reset.
class SingleCommandExecutor final : public ChangeExecutor {
 public:
  SingleCommandExecutor(ExecutorContext& context, const QueuedChange& change)
      : context_(context), change_(change) {}

  void start() override {
    const auto* const clear = std::get_if<ClearEcc>(&change_.task);
    if (clear == nullptr) {
      context_.reset_gpu(change_.dry_run,
                         [this](const Result<void>& done) { finish(done, ChangeOutcome::reset); });
    } else if (change_.dry_run) {
      finish({}, ChangeOutcome::planned);
    } else {
      context_.send_command(*clear, [this](const CommandCompletion& completion) {
        const auto error = completion.error();
        finish(error ? Result<void>(*error) : Result<void>(), ChangeOutcome::cleared);
      });
    }
  }

 private:
  void finish(const Result<void>& done, ChangeOutcome outcome) {
    ChangeResult result;
    if (!done) result.error = done.error();
    if (done) result.outcome = change_.dry_run ? ChangeOutcome::planned : outcome;
    context_.finish(std::move(result));
  }

  ExecutorContext& context_;
  const QueuedChange& change_;
};

}  // namespace

std::unique_ptr<ChangeExecutor> make_executor(ExecutorContext& context,
                                              const QueuedChange& change) {
  if (const auto kind = kind_of(change.task))
    return std::make_unique<SettingChangeExecutor>(context, change, *kind);
  return std::make_unique<SingleCommandExecutor>(context, change);
}

void GpuResetter::begin(const DeviceInfo& gpu, bool dry_run, std::function<bool()> others_idle,
                        OnDone on_done) {
  if (closed_) {
    return post_result(std::move(on_done), Error{Errc::unavailable, "gpuyard is shutting down"});
  }
  if (is_active()) {
    return post_result(std::move(on_done), Error{Errc::busy, "another GPU is being reset"});
  }
  auto allowed = command_port_.check_reset(gpu);
  if (!allowed || dry_run) return post_result(std::move(on_done), std::move(allowed));
  state_ = State::waiting;
  gpu_ = gpu;
  others_idle_ = std::move(others_idle);
  on_done_ = std::move(on_done);
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
  if (const OnDone on_done = std::exchange(on_done_, nullptr)) on_done(done);
}

void GpuResetter::post_result(OnDone on_done, Result<void> result) {
  loop_.post(lifetime_.guard(
      [on_done = std::move(on_done), result = std::move(result)] { on_done(result); }));
}

}  // namespace gpuyard::control
