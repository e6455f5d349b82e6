#include "gpu/telemetry/poll_state.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "gpu/device/catalog.h"
#include "gpu/device/fitness.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::telemetry {
namespace {

ProbeSet intersection(ProbeSet a, ProbeSet b) {
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
bool is_well_formed(const Reading& reading) {
  const MetricRow& row = row_of(reading.metric);
  if (reading.index >= extent_of(row.dimension)) return false;
  if (reading.missing() != nullptr) return true;
  return (reading.text() != nullptr) == (row.kind == MetricKind::text);
}

bool contains(const std::vector<DeviceInfo>& all, const DeviceId& id) {
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
    if (place == before.end() || place->uuid.empty() || contains(said, place->id)) continue;
    DeviceInfo known = *place;
    known.fault = info.fault;
    info = std::move(known);
  }
  return counted;
}

DeviceInfo info_of(const KnownBoard& board) {
  return {board.uuid, board.index, board.uuid, board.pci_address, board.name, {}};
}

}  // namespace

ProbeSet PollState::next_probes() const {
  if (pending_query_ || !is_readable()) return {};
  if (!urgent_.empty()) return urgent_;
  const ProbeSet fast = intersection(due_, probes_of(Tier::fast));
  return fast.empty() ? first_of(due_) : fast;
}

void PollState::begin_query(std::uint64_t id, ProbeSet probes, TimePoint now) {
  pending_query_ = PendingQuery{id, probes, now};
  if (!vitals_at_) vitals_at_ = now;
  urgent_ = urgent_ - probes;
  due_ = due_ - probes;
}

std::optional<Sample> PollState::finish_query(std::uint64_t id, const Sample& reply,
                                              TimePoint now) {
  if (!pending_query_ || pending_query_->id != id) return std::nullopt;
  const PendingQuery query = *std::exchange(pending_query_, std::nullopt);
  Sample accepted =
      missing_sample(query.probes, {MissingReason::failed, "not reported by the driver-host"}, now);
  for (Reading reading : reply.readings()) {
    if (accepted.all(reading.metric).empty() || !is_well_formed(reading)) continue;
    reading.taken = std::clamp(reading.taken, query.sent_at, now);
    accepted.set(std::move(reading));
  }
  if (query.probes.contains(Probe::processes) && reply.processes()) {
    ProcessList processes = *reply.processes();
    processes.taken = std::clamp(processes.taken, query.sent_at, now);
    accepted.set(std::move(processes));
  }
  if (!is_inconclusive(accepted)) update_presence(find_loss(accepted));
  update_vitals(accepted);
  sample_.merge(accepted);
  return accepted;
}

void PollState::update_presence(const Missing* why_gone) {
  // Readings from before a loss or a recovery say nothing about the present.
  if (loss_.has_value() != (why_gone != nullptr)) {
    due_ = due_ | probes_of(Tier::slow) | probes_of(Tier::rare);
  }
  loss_ = why_gone != nullptr ? std::optional(*why_gone) : std::nullopt;
}

void PollState::update_vitals(const Sample& accepted) {
  for (const Metric metric : kVitals) {
    const Reading* const reading = accepted.find(metric);
    if (reading != nullptr && reading->number() != nullptr) {
      vitals_at_ = std::max(vitals_at_.value_or(reading->taken), reading->taken);
    }
  }
}

bool PollState::is_unresponsive(TimePoint now) const {
  return pending_query_ && now - pending_query_->sent_at >= kUnresponsiveTimeout;
}

DeviceState PollState::state(TimePoint now) const {
  DeviceState state{info_, DeviceCondition::responsive, "", sample_, 0};
  state.vitals_at = vitals_at_;
  const auto& gone = info_.fault ? info_.fault : loss_;
  if (is_unresponsive(now)) {
    state.condition = DeviceCondition::unresponsive;
    state.why = fmt::format("the driver has not responded for {:.1f} s; showing the last readings",
                            std::chrono::duration<double>(now - pending_query_->sent_at).count());
  } else if (gone) {
    state.condition = DeviceCondition::unavailable;
    state.why = describe(*gone);
  } else if (vitals_at_ && now - *vitals_at_ >= kSickTimeout) {
    const Missing* const why = unreadable_reason(sample_);
    if (why == nullptr) return state;
    state.condition = DeviceCondition::unavailable;
    state.why = fmt::format("all of its readings fail: {}", describe(*why));
  }
  return state;
}

void QueryErrors::record(const DeviceInfo& info, const Sample& sample) {
  for (const Missing& why : failures(sample)) record(info, why);
}

void QueryErrors::record(const DeviceInfo& info, const Missing& missing) {
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

void Roster::restore(const std::vector<KnownBoard>& boards) {
  for (const KnownBoard& board : boards) {
    if (contains(counted_, board.uuid)) continue;
    if (board.listed && !has_inventory_) {
      restored_.push_back(board);
    } else {
      add_missing(info_of(board), board.last_seen);
    }
  }
}

void Roster::update(const std::vector<DeviceInfo>& counted, WallTime wall) {
  std::map<DeviceId, WallTime> last_seen;
  for (const KnownBoard& board : std::exchange(restored_, {})) {
    counted_.push_back(info_of(board));
    last_seen.emplace(board.uuid, board.last_seen);
  }
  const auto before = std::exchange(counted_, with_identity(counted, counted_));
  has_inventory_ = true;
  for (const DeviceInfo& info : before) {
    if (info.uuid.empty() || contains(counted_, info.id)) continue;
    const auto seen = last_seen.find(info.id);
    add_missing(info, seen != last_seen.end() ? seen->second : wall);
  }
  std::erase_if(missing_, [&](const MissingBoard& one) { return contains(counted_, one.info.id); });
}

void Roster::add_missing(const DeviceInfo& info, WallTime last_seen) {
  const auto is_same = [&](const MissingBoard& one) { return one.info.id == info.id; };
  if (std::ranges::any_of(missing_, is_same)) return;
  MissingBoard gone{info, last_seen};
  gone.info.former_index = info.index;
  gone.info.fault =
      Missing{MissingReason::device_lost,
              "not present since " + to_rfc3339(last_seen) + ": the driver does not list it"};
  if (missing_.size() == kMaxMissing) missing_.erase(missing_.begin());
  missing_.push_back(std::move(gone));
}

bool Roster::remove_missing(const DeviceId& id) {
  return std::erase_if(missing_, [&](const MissingBoard& one) { return one.info.id == id; }) > 0;
}

std::vector<DeviceInfo> Roster::list() const {
  std::vector<DeviceInfo> all = counted_;
  std::set<std::uint32_t> taken;
  for (const DeviceInfo& info : counted_) taken.insert(info.index);
  std::vector<DeviceInfo> displaced;
  for (const MissingBoard& one : missing_) {
    (taken.insert(one.info.index).second ? all : displaced).push_back(one.info);
  }
  for (DeviceInfo& info : displaced) {
    info.fault->detail += fmt::format("; it was GPU {}", info.index);
    info.index = *taken.rbegin() + 1;
    taken.insert(info.index);
    all.push_back(std::move(info));
  }
  std::ranges::sort(all, {}, &DeviceInfo::index);
  return all;
}

std::vector<KnownBoard> Roster::known_boards(WallTime now) const {
  std::vector<KnownBoard> boards;
  const auto add = [&](const DeviceInfo& info, bool listed, WallTime last_seen) {
    if (info.uuid.empty()) return;
    boards.push_back(
        {info.uuid, info.index, info.pci_address, info.name, listed, last_seen, last_seen});
  };
  for (const DeviceInfo& info : counted_) add(info, true, now);
  for (const MissingBoard& one : missing_) add(one.info, false, one.last_seen);
  return boards;
}

}  // namespace gpuyard::telemetry
