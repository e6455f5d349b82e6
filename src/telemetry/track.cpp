#include "telemetry/track.h"

#include <fmt/format.h>

#include "device/catalog.h"

namespace gpuyard::telemetry {
namespace {

ProbeSet common(ProbeSet a, ProbeSet b) {
  return a - (a - b);
}

ProbeSet first_of(ProbeSet probes) {
  ProbeSet first;
  probes.each([&](Probe probe) {
    if (first.empty()) first = ProbeSet{probe};
  });
  return first;
}

}  // namespace

ProbeSet Track::next() const {
  if (question_ || !readable()) return {};
  if (!urgent_.empty()) return urgent_;
  const ProbeSet fast = common(due_, probes_of(Tier::fast));
  return fast.empty() ? first_of(due_) : fast;
}

void Track::asked(std::uint64_t id, ProbeSet probes, TimePoint now) {
  question_ = Question{id, now};
  urgent_ = urgent_ - probes;
  due_ = due_ - probes;
}

bool Track::answered(std::uint64_t id, const Sample& sample) {
  if (!question_ || question_->id != id) return false;
  question_.reset();
  const Missing* why = lost(sample);
  gone_ = why != nullptr ? std::optional(*why) : std::nullopt;
  sample_.merge(sample);
  return true;
}

bool Track::unresponsive(TimePoint now) const {
  return question_ && now - question_->asked >= kUnresponsiveAfter;
}

DeviceState Track::state(TimePoint now) const {
  DeviceState state{info_, DeviceCondition::responsive, "", sample_};
  const auto& gone = info_.fault ? info_.fault : gone_;
  if (unresponsive(now)) {
    state.condition = DeviceCondition::unresponsive;
    state.why =
        fmt::format("the driver has not answered for {:.1f} s; readings are the last that came",
                    std::chrono::duration<double>(now - question_->asked).count());
  } else if (gone) {
    state.condition = DeviceCondition::unavailable;
    state.why = describe(*gone);
  }
  return state;
}

}  // namespace gpuyard::telemetry
