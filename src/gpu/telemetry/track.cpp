#include "telemetry/track.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "device/catalog.h"
#include "device/snapshot.h"

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

// True for a value of the row's kind at an index that can exist.
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
  // Readings from before a loss or a recovery say nothing about the present.
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

void QueryErrors::note(const DeviceInfo& info, const Sample& sample) {
  for (const Missing& why : failures(sample)) note(info, why);
}

void QueryErrors::note(const DeviceInfo& info, const Missing& missing) {
  if (!is_failure(missing.reason)) return;
  std::string cause = describe(missing);
  if (counts_.size() >= kMaxCauses && !counts_.contains({info.id, cause})) cause = "another cause";
  if (++counts_[{info.id, cause}] == 1) {
    log::error("Error querying GPU device {}: {}", info.index, cause);
  }
}

std::uint64_t QueryErrors::count(const DeviceId& id) const {
  std::uint64_t total = 0;
  for (const auto& [key, count] : counts_) {
    if (key.first == id) total += count;
  }
  return total;
}

namespace {

bool has(const std::vector<DeviceInfo>& all, const DeviceId& id) {
  return std::ranges::find(all, id, &DeviceInfo::id) != all.end();
}

// If the number of GPUs is unchanged and some do not open now, these are the GPUs that were in the
// same places before: they keep their identity.
std::vector<DeviceInfo> with_identity(std::vector<DeviceInfo> counted,
                                      const std::vector<DeviceInfo>& before) {
  if (counted.size() != before.size()) return counted;
  const std::vector<DeviceInfo> said = counted;
  for (DeviceInfo& info : counted) {
    if (!info.uuid.empty()) continue;
    const auto place = std::ranges::find(before, info.index, &DeviceInfo::index);
    if (place == before.end() || place->uuid.empty() || has(said, place->id)) continue;
    DeviceInfo known = *place;
    known.fault = info.fault;
    info = std::move(known);
  }
  return counted;
}

}  // namespace

void Roster::arrive(const std::vector<DeviceInfo>& counted, TimePoint now, WallTime wall) {
  const auto before = std::exchange(counted_, with_identity(counted, counted_));
  for (const DeviceInfo& info : before) {
    if (!info.uuid.empty() && !has(counted_, info.id)) note_gone(info, now, wall);
  }
  std::erase_if(gone_, [&](const Gone& one) { return has(counted_, one.info.id); });
}

void Roster::note_gone(const DeviceInfo& info, TimePoint now, WallTime wall) {
  Gone gone{info, now};
  gone.info.fault =
      Missing{MissingReason::device_lost,
              "no longer there since " + to_rfc3339(wall) + ": the driver does not list it"};
  if (gone_.size() == kMostGone) gone_.erase(gone_.begin());
  gone_.push_back(std::move(gone));
}

bool Roster::forget(TimePoint now) {
  return std::erase_if(gone_, [&](const Gone& one) { return now - one.since > kRemembered; }) > 0;
}

std::vector<DeviceInfo> Roster::list() const {
  std::vector<DeviceInfo> all = counted_;
  std::set<std::uint32_t> taken;
  for (const DeviceInfo& info : counted_) taken.insert(info.index);
  for (const Gone& one : gone_) {
    all.push_back(one.info);
    if (taken.contains(one.info.index)) all.back().index = *taken.rbegin() + 1;
    taken.insert(all.back().index);
  }
  std::ranges::sort(all, {}, &DeviceInfo::index);
  return all;
}

}  // namespace gpuyard::telemetry
