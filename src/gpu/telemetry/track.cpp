#include "telemetry/track.h"

#include <algorithm>
#include <utility>

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

// A value of the row's kind, at a place that can exist.
bool makes_sense(const Reading& reading) {
  const Row& row = row_of(reading.metric);
  if (reading.index >= extent_of(row.dimension)) return false;
  if (reading.missing() != nullptr) return true;
  return (reading.text() != nullptr) == (row.kind == Kind::text);
}

}  // namespace

ProbeSet Track::next() const {
  if (question_ || !readable()) return {};
  if (!urgent_.empty()) return urgent_;
  const ProbeSet fast = common(due_, probes_of(Tier::fast));
  return fast.empty() ? first_of(due_) : fast;
}

void Track::asked(std::uint64_t id, ProbeSet probes, TimePoint now) {
  question_ = Question{id, probes, now};
  urgent_ = urgent_ - probes;
  due_ = due_ - probes;
}

std::optional<Sample> Track::answered(std::uint64_t id, const Sample& answer, TimePoint now) {
  if (!question_ || question_->id != id) return std::nullopt;
  const Question question = *std::exchange(question_, std::nullopt);
  Sample accepted = missing_sample(question.probes,
                                   {MissingReason::failed, "the driver-host left this out"}, now);
  for (Reading reading : answer.readings()) {
    if (accepted.all(reading.metric).empty() || !makes_sense(reading)) continue;
    reading.taken = std::clamp(reading.taken, question.asked, now);
    accepted.set(std::move(reading));
  }
  if (question.probes.contains(Probe::processes) && answer.processes()) {
    ProcessList processes = *answer.processes();
    processes.taken = std::clamp(processes.taken, question.asked, now);
    accepted.set(std::move(processes));
  }
  if (!says_nothing(accepted)) note_presence(lost(accepted));
  sample_.merge(accepted);
  return accepted;
}

void Track::note_presence(const Missing* why_gone) {
  // What was read on the other side of a loss or a recovery says nothing about now.
  if (gone_.has_value() != (why_gone != nullptr)) {
    due_ = due_ | probes_of(Tier::slow) | probes_of(Tier::rare);
  }
  gone_ = why_gone != nullptr ? std::optional(*why_gone) : std::nullopt;
}

bool Track::unresponsive(TimePoint now) const {
  return question_ && now - question_->asked >= kUnresponsiveAfter;
}

DeviceState Track::state(TimePoint now) const {
  DeviceState state{info_, DeviceCondition::responsive, "", sample_, 0};
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
