#include "core/lease/gpu_pool.h"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace gpuyard::lease {
namespace {

bool contains(const std::string& name, const std::string& part) {
  return part.empty() || to_lower(name).find(to_lower(part)) != std::string::npos;
}

}  // namespace

void GpuPool::know(const std::vector<PoolGpu>& all, TimePoint now) {
  complete_ = true;
  std::set<DeviceId> there;
  for (PoolGpu gpu : all) {
    there.insert(gpu.info.id);
    // A reading of the last second may still count memory of a lease that has drained since.
    const auto freed = freed_at_.find(gpu.info.id);
    const auto known = gpus_.find(gpu.info.id);
    const bool just = freed != freed_at_.end() && now - freed->second < kStale;
    if (just && known != gpus_.end()) gpu.free_bytes = known->second.free_bytes;
    // The size of a board does not change while a reading of it fails.
    if (!gpu.total_bytes && gpu.reports_memory && known != gpus_.end()) {
      gpu.total_bytes = known->second.total_bytes;
    }
    place(gpu);
    // Who used it while its processes were not known has to be seen again.
    if (gpu.withheld == kUnknown && !overridden(gpu.info.id, kUnknown)) {
      looked_at_.erase(gpu.info.id);
    }
    note_activity(gpu);
    drop_override_unless_needed(gpu.info.id);
  }
  std::erase_if(gpus_, [&](const auto& one) { return there.count(one.first) == 0; });
  std::erase_if(outside_, [&](const auto& one) { return there.count(one.first) == 0; });
  std::erase_if(looked_at_, [&](const DeviceId& one) { return there.count(one) == 0; });
  std::erase_if(hidden_work_, [&](const auto& one) { return there.count(one.first) == 0; });
  std::erase_if(overridden_, [&](const auto& one) { return there.count(one.first) == 0; });
  std::erase_if(slots_, [&](const auto& one) {
    if (there.count(one.first) > 0 || core_.holder(one.second)) return false;
    core_.remove(one.second);
    return true;
  });
}

void GpuPool::place(const PoolGpu& gpu) {
  gpus_[gpu.info.id] = gpu;
  const auto slot = slot_of(gpu.info.id);
  if (slot) core_.locate(*slot, gpu.clique, gpu.numa_node);
}

std::optional<Slot> GpuPool::slot_of(const DeviceId& id) {
  if (const auto found = slots_.find(id); found != slots_.end()) return found->second;
  Gpu gpu;
  gpu.key = id;
  gpu.now.in_service = false;  // until its condition is told
  const auto slot = core_.add(std::move(gpu));
  if (!slot) return std::nullopt;
  slots_.emplace(id, *slot);
  return *slot;
}

void GpuPool::cordon(Cordon cordon) {
  const DeviceId gpu = cordon.gpu;
  cordons_.insert_or_assign(gpu, std::move(cordon));
}

std::optional<Cordon> GpuPool::uncordon(const DeviceId& gpu, const std::string& by, WallTime now) {
  cordons_.erase(gpu);
  if (!cordons_.contains(kEveryGpu)) return std::nullopt;
  Cordon lifted{kEveryGpu + gpu, by, "uncordoned", now};
  cordon(lifted);
  return lifted;
}

std::optional<Cordon> GpuPool::cordon_of(const DeviceId& gpu) const {
  const auto own = cordons_.find(gpu);
  const auto every = cordons_.find(kEveryGpu);
  std::optional<Cordon> cordon;
  if (own != cordons_.end()) cordon = own->second;
  if (every == cordons_.end() || cordons_.contains(kEveryGpu + gpu)) return cordon;
  if (!cordon) return every->second;
  cordon->reason += "; and: " + every->second.reason;
  return cordon;
}

void GpuPool::observe_only() {
  observes_only_ = true;
  outside_.clear();
}

void GpuPool::stop_observing() {
  observes_only_ = false;
  looked_at_.clear();
}

std::vector<DeviceId> GpuPool::not_looked_at() const {
  std::vector<DeviceId> some;
  for (const auto& [id, gpu] : gpus_) {
    if (gpu.withheld.empty() && looked_at_.count(id) == 0) some.push_back(id);
  }
  return some;
}

bool GpuPool::fit(const DeviceId& id) const {
  const auto gpu = gpus_.find(id);
  return gpu != gpus_.end() && !own_withholding(gpu->second);
}

bool GpuPool::lost(const DeviceId& id) const {
  const auto gpu = gpus_.find(id);
  return gpu == gpus_.end() || gpu->second.withheld == "lost";
}

bool GpuPool::leased(const DeviceId& gpu) const {
  const auto slot = slots_.find(gpu);
  return slot != slots_.end() && core_.holder(slot->second).has_value();
}

std::optional<std::int64_t> GpuPool::idle_bytes(const DeviceId& gpu) const {
  const auto found = idle_bytes_.find(gpu);
  return found == idle_bytes_.end() ? std::nullopt : std::optional(found->second);
}

bool GpuPool::fleet_changed() {
  std::vector<std::string> fleet;
  for (const auto& [id, slot] : slots_) {
    const auto gpu = gpus_.find(id);
    if (gpu == gpus_.end()) continue;
    fleet.push_back(fmt::format("{} {} {} {}", id, slot, gpu->second.info.name,
                                gpu->second.total_bytes.value_or(-1)));
  }
  return fleet != std::exchange(fleet_, fleet);
}

std::vector<Seen> GpuPool::see(const DeviceId& gpu, const Sight& sight, TimePoint now) {
  const auto& list = sight.on_gpus.at(gpu);
  // A board that has no list of processes is handed out all the same.
  const auto board = gpus_.find(gpu);
  const bool has_none = board != gpus_.end() && !board->second.lists_processes;
  if (list || (has_none && sight.lists_any() && fit(gpu))) looked_at_.insert(gpu);
  const auto freed = freed_at_.find(gpu);
  const bool old = freed != freed_at_.end() && sight.taken < freed->second;
  if (!list || old) return {};
  const auto used = sight.used_bytes.find(gpu);
  if (used != sight.used_bytes.end() && used->second) {
    if (list->empty() && !leased(gpu)) idle_bytes_[gpu] = *used->second;
    use(gpu, *used->second);
  }
  if (observes_only_) return {};
  std::vector<Seen> outside;
  std::ranges::copy_if(*list, std::back_inserter(outside),
                       [](const Seen& one) { return one.verdict != Seen::Verdict::member; });
  return note_outside(gpu, std::move(outside), now);
}

std::vector<Seen> GpuPool::note_outside(const DeviceId& gpu, std::vector<Seen> outside,
                                        TimePoint now) {
  const bool first = seen_.insert(gpu).second;
  auto& known = outside_since_[gpu];
  for (const Seen& one : outside) {
    if (!one.started) continue;
    const Stay begun{first ? *one.started : now, now};
    Stay& stay = known.try_emplace({one.pid, *one.started}, begun).first->second;
    if (leased(gpu)) stay.since = now;
    stay.seen = now;
  }
  std::erase_if(known, [&](const auto& one) { return now - one.second.seen > kMissed; });
  const auto before = std::exchange(outside_[gpu], std::move(outside));
  std::vector<Seen> newcomers;
  for (const Seen& one : outside_[gpu]) {
    const bool same = std::ranges::any_of(before, [&](const Seen& other) {
      return other.pid == one.pid && other.started == one.started;
    });
    if (one.verdict == Seen::Verdict::outsider && !same) newcomers.push_back(one);
  }
  if (outside_[gpu].empty()) outside_.erase(gpu);
  return newcomers;
}

std::optional<TimePoint> GpuPool::outside_since(const DeviceId& gpu, const Process& process) const {
  const auto all = outside_since_.find(gpu);
  if (all == outside_since_.end()) return std::nullopt;
  const auto since = all->second.find(process);
  return since == all->second.end() ? std::nullopt : std::optional(since->second.since);
}

void GpuPool::use(const DeviceId& id, std::int64_t used_bytes) {
  const auto gpu = gpus_.find(id);
  if (gpu == gpus_.end() || !gpu->second.total_bytes) return;
  const std::int64_t used = used_bytes + gpu->second.drawing_bytes;
  gpu->second.free_bytes = std::max<std::int64_t>(*gpu->second.total_bytes - used, 0);
}

// Returns the memory that is used though the GPU is in no lease and no process is listed.
std::optional<std::int64_t> GpuPool::hidden_bytes(const DeviceId& id) const {
  const auto gpu = gpus_.find(id);
  const auto slot = slots_.find(id);
  if (gpu == gpus_.end() || slot == slots_.end() || core_.holder(slot->second)) return std::nullopt;
  if (!gpu->second.total_bytes || !gpu->second.free_bytes) return std::nullopt;
  const std::int64_t used =
      *gpu->second.total_bytes - *gpu->second.free_bytes - gpu->second.drawing_bytes;
  return used > *gpu->second.total_bytes / kIdlePart ? std::optional(used) : std::nullopt;
}

void GpuPool::note_activity(const PoolGpu& gpu) {
  HiddenWork& work = hidden_work_[gpu.info.id];
  const bool in_lease = leased(gpu.info.id);
  if (!in_lease && gpu.activity) return work.note(*gpu.activity);
  // A GPU that is withheld for another reason tells nothing new: what was found stays found. An
  // override rests on what was found, which stays as long as the override does.
  if (!in_lease && own_withholding(gpu)) return;
  if (overridden(gpu.info.id, kInUse)) return;
  work.accounted_for();
}

std::optional<Withholding> GpuPool::hidden_use(const DeviceId& id) const {
  if (const auto hidden = hidden_bytes(id)) {
    return Withholding{
        kInUse, fmt::format("{:.1f} GiB of its memory is in use by processes not visible from here",
                            in_gib(*hidden))};
  }
  const auto work = hidden_work_.find(id);
  const auto found = work == hidden_work_.end() ? std::nullopt : work->second.found();
  if (!found) return std::nullopt;
  return Withholding{
      kInUse, fmt::format("busy ({}), although no lease and no listed process uses it", *found)};
}

std::optional<Withholding> GpuPool::own_withholding(const PoolGpu& gpu) const {
  if (gpu.withheld.empty() || overridden(gpu.info.id, gpu.withheld)) return std::nullopt;
  return Withholding{gpu.withheld, gpu.text};
}

bool GpuPool::overridden(const DeviceId& id, std::string_view word) const {
  const auto found = overridden_.find(id);
  return found != overridden_.end() && found->second.contains(word);
}

std::optional<Error> GpuPool::bar_to_overriding(const DeviceId& id) const {
  const auto why = withheld(id);
  if (!why || why->first == kUnknown || why->first == kInUse) return std::nullopt;
  return Error{Errc::conflict,
               fmt::format("GPU {} is withheld for a reason that cannot be overridden",
                           label_of(gpus_.at(id).info)),
               why->second};
}

void GpuPool::override_withholding(const DeviceId& id, const std::string& word) {
  overridden_[id].insert(word);
  looked_at_.insert(id);
}

void GpuPool::drop_override_unless_needed(const DeviceId& id) {
  const auto found = overridden_.find(id);
  if (found == overridden_.end() || leased(id)) return;
  const auto gpu = gpus_.find(id);
  const bool unknown = gpu != gpus_.end() && gpu->second.withheld == kUnknown;
  const bool in_use = hidden_use(id).has_value();
  std::erase_if(found->second,
                [&](const std::string& word) { return !(word == kUnknown ? unknown : in_use); });
  if (found->second.empty()) overridden_.erase(found);
}

void GpuPool::start_over() {
  slots_.clear();
  cordons_.clear();
  looked_at_.clear();
  fleet_.clear();
  for (const auto& [id, gpu] : gpus_) place(gpu);
}

Condition GpuPool::condition(const DeviceId& id) const {
  Condition now;
  const auto gpu = gpus_.find(id);
  now.in_service = gpu != gpus_.end() && !own_withholding(gpu->second) && !cordon_of(id) &&
                   looked_at_.count(id) > 0;
  now.in_service = now.in_service && !observes_only_;
  now.squatted = outside_.count(id) > 0 || (hidden_use(id) && !overridden(id, kInUse));
  if (gpu == gpus_.end()) return now;
  now.free_bytes = gpu->second.free_bytes;
  now.temperature_c = gpu->second.temperature_c;
  return now;
}

GpuSet GpuPool::eligible(const Wish& wish) const {
  GpuSet set;
  for (const auto& [id, slot] : slots_) {
    const auto found = gpus_.find(id);
    if (found == gpus_.end()) continue;
    const PoolGpu& gpu = found->second;
    const bool named = wish.among.empty() || std::ranges::find(wish.among, id) != wish.among.end();
    // A size that cannot be read now may be enough; one that the board does not report never is.
    const bool large = gpu.total_bytes ? *gpu.total_bytes >= wish.min_free_bytes
                                       : gpu.reports_memory || wish.min_free_bytes == 0;
    if (named && large && contains(gpu.info.name, wish.model)) set.set(slot);
  }
  return set;
}

std::vector<DeviceId> GpuPool::ids() const {
  const auto ids = std::views::keys(slots_);
  return {ids.begin(), ids.end()};
}

std::vector<DeviceId> GpuPool::names(const GpuSet& set) const {
  std::set<std::pair<std::uint32_t, DeviceId>> found;
  for (const auto& [id, slot] : slots_) {
    if (!set[slot]) continue;
    const auto gpu = gpus_.find(id);
    found.emplace(gpu == gpus_.end() ? UINT32_MAX : gpu->second.info.index, id);
  }
  const auto names = std::views::values(found);
  return {names.begin(), names.end()};
}

std::optional<Withholding> GpuPool::withheld(const DeviceId& id) const {
  const auto gpu = gpus_.find(id);
  if (gpu == gpus_.end()) return Withholding{"lost", "not present"};
  if (const auto cordon = cordon_of(id)) {
    return Withholding{"cordoned", fmt::format("cordoned by {}: {}", cordon->by, cordon->reason)};
  }
  if (auto own = own_withholding(gpu->second)) return own;
  if (observes_only_)
    return Withholding{"observed", "allocated by Slurm; gpuyard only observes it"};
  if (looked_at_.count(id) == 0) {
    return Withholding{"new", "its processes have not been checked yet"};
  }
  const auto outside = outside_.find(id);
  if (outside == outside_.end()) {
    auto hidden = hidden_use(id);
    return overridden(id, kInUse) ? std::nullopt : hidden;
  }
  const auto known = std::ranges::find(outside->second, Seen::Verdict::outsider, &Seen::verdict);
  if (known == outside->second.end()) {
    return Withholding{"unknown_process",
                       fmt::format("in use by a process not visible from here (PID {})",
                                   outside->second.front().pid)};
  }
  return Withholding{"squatted", fmt::format("PID {} ({}) of UID {} uses it without a lease",
                                             known->pid, known->command, known->uid)};
}

}  // namespace gpuyard::lease
