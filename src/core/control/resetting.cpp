#include "control/resetting.h"

#include <utility>

namespace gpuyard::control {

void Resetting::begin(const DeviceInfo& gpu, bool dry_run, std::function<bool()> quiet, Then then) {
  if (closed_) {
    return answer_soon(std::move(then), Error{Errc::unavailable, "gpuyard is ending"});
  }
  if (under_way()) {
    return answer_soon(std::move(then), Error{Errc::busy, "another GPU is being reset"});
  }
  auto allowed = hands_.may_reset(gpu);
  if (!allowed || dry_run) return answer_soon(std::move(then), std::move(allowed));
  state_ = State::waiting;
  gpu_ = gpu;
  quiet_ = std::move(quiet);
  then_ = std::move(then);
  patience_ = loop_.call_after(kPatience, [this] {
    end(Error{Errc::busy,
              "a command for another GPU is still under way, and a reset takes all GPUs away"});
  });
  soon_ = loop_.call_at(loop_.now(), [this] { go_on(); });
}

void Resetting::go_on() {
  if (state_ != State::waiting || closed_ || !quiet_()) return;
  // Somebody may have begun to use it meanwhile.
  if (auto allowed = hands_.may_reset(gpu_); !allowed) return end(allowed);
  state_ = State::resetting;
  patience_.reset();
  hands_.reset(gpu_, [this, alive = std::weak_ptr(self_)](const Result<void>& done) {
    if (!alive.expired()) end(done);
  });
}

void Resetting::end(const Result<void>& done) {
  state_ = State::none;
  patience_.reset();
  if (const Then then = std::exchange(then_, nullptr)) then(done);
}

void Resetting::answer_soon(Then then, Result<void> answer) {
  loop_.post([then = std::move(then), answer = std::move(answer), alive = std::weak_ptr(self_)] {
    if (!alive.expired()) then(answer);
  });
}

}  // namespace gpuyard::control
