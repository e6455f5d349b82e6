#include "core/control/gpu_resetter.h"

#include <utility>

namespace gpuyard::control {

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
