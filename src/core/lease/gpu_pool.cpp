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

// A process that cannot be seen withholds a GPU from leasing. An allocator's GPU is not leased, and
// such a process may be of any job.
bool is_unleased(const ObservedProcess& process, bool is_leased, bool observes) {
  using enum ObservedProcess::Attribution;
  if (!observes) return process.attribution != member;
  if (process.attribution != outsider || !process.started || process.in_job) return false;
  // A job may have started it with the help of a daemon of root's: in a container, or over MPS.
  return !is_leased || (!process.in_container && process.uid != 0);
}

// Updates the used memory, drawing excluded, which may be newer than that of update_gpus().
void set_used_bytes(PoolGpu& gpu, std::int64_t used_bytes) {
  if (!gpu.total_bytes) return;
  gpu.free_bytes = std::max<std::int64_t>(*gpu.total_bytes - used_bytes - gpu.graphics_bytes, 0);
}

// Returns the memory that is used though no process is listed.
std::optional<std::int64_t> hidden_bytes(const PoolGpu& gpu) {
  if (!gpu.total_bytes || !gpu.free_bytes) return std::nullopt;
  const std::int64_t used = *gpu.total_bytes - *gpu.free_bytes - gpu.graphics_bytes;
  return used > *gpu.total_bytes / GpuPool::kIdleMemoryDivisor ? std::optional(used) : std::nullopt;
}

}  // namespace

void GpuPool::update_gpus(const std::vector<PoolGpu>& all, TimePoint now) {
  is_complete_ = true;
  std::set<DeviceId> present;
  for (PoolGpu gpu : all) {
    present.insert(gpu.info.id);
    // A reading of the last second may still count memory of a lease that has drained since.
    const auto freed = freed_at_.find(gpu.info.id);
    const auto known = gpus_.find(gpu.info.id);
    const bool freed_recently = freed != freed_at_.end() && now - freed->second < kMaxReadingAge;
    if (freed_recently && known != gpus_.end()) gpu.free_bytes = known->second.free_bytes;
    // The size of a GPU's memory does not change while a reading of it fails.
    if (!gpu.total_bytes && gpu.reports_memory && known != gpus_.end()) {
      gpu.total_bytes = known->second.total_bytes;
    }
    assign_slot(gpu);
    // Its users while its processes were not known have to be observed again.
    if (gpu.withheld == kUnknown && !is_overridden(gpu.info.id, kUnknown)) {
      observed_.erase(gpu.info.id);
    }
    update_activity(gpu);
    drop_unneeded_override(gpu.info.id);
  }
  std::erase_if(gpus_, [&](const auto& one) { return present.count(one.first) == 0; });
  unleased_.remove_absent(present);
  std::erase_if(observed_, [&](const DeviceId& one) { return present.count(one) == 0; });
  std::erase_if(hidden_work_, [&](const auto& one) { return present.count(one.first) == 0; });
  std::erase_if(overrides_, [&](const auto& one) { return present.count(one.first) == 0; });
  std::erase_if(slots_, [&](const auto& one) {
    if (present.count(one.first) > 0 || scheduler_.allocations().holder(one.second)) return false;
    scheduler_.remove(one.second);
    return true;
  });
}

void GpuPool::assign_slot(const PoolGpu& gpu) {
  gpus_[gpu.info.id] = gpu;
  const auto slot = slot_of(gpu.info.id);
  if (slot) scheduler_.set_topology(*slot, gpu.clique, gpu.numa_node);
}

std::optional<Slot> GpuPool::slot_of(const DeviceId& id) {
  if (const auto found = slots_.find(id); found != slots_.end()) return found->second;
  Gpu gpu;
  gpu.key = id;
  gpu.availability.in_service = false;  // until its availability is set
  const auto slot = scheduler_.add(std::move(gpu));
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

void GpuPool::observe_only(Allocator allocator) {
  if (!std::exchange(allocator_, allocator)) unleased_.clear();
}

void GpuPool::stop_observing() {
  allocator_.reset();
  has_report_ = false;
  unleased_.clear();
  observed_.clear();
}

std::vector<DeviceId> GpuPool::unobserved() const {
  std::vector<DeviceId> some;
  for (const auto& [id, gpu] : gpus_) {
    if (gpu.withheld.empty() && observed_.count(id) == 0) some.push_back(id);
  }
  return some;
}

bool GpuPool::is_fit(const DeviceId& id) const {
  const auto gpu = gpus_.find(id);
  return gpu != gpus_.end() && !own_withheld_reason(gpu->second);
}

bool GpuPool::is_lost(const DeviceId& id) const {
  const auto gpu = gpus_.find(id);
  return gpu == gpus_.end() || gpu->second.withheld == "lost";
}

bool GpuPool::is_leased(const DeviceId& gpu) const {
  const auto slot = slots_.find(gpu);
  return slot != slots_.end() && scheduler_.allocations().holder(slot->second).has_value();
}

std::optional<std::int64_t> GpuPool::idle_bytes(const DeviceId& gpu) const {
  const auto found = idle_bytes_.find(gpu);
  return found == idle_bytes_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<ObservedProcess> GpuPool::observe(const DeviceId& gpu, const Observation& observation,
                                              TimePoint now) {
  const auto& list = observation.processes_by_gpu.at(gpu);
  // A GPU that has no list of processes is leased all the same.
  const auto pool_gpu = gpus_.find(gpu);
  const bool has_no_list = pool_gpu != gpus_.end() && !pool_gpu->second.lists_processes;
  if (list || (has_no_list && observation.has_any_list() && is_fit(gpu))) observed_.insert(gpu);
  const auto freed = freed_at_.find(gpu);
  const bool old = freed != freed_at_.end() && observation.taken_at < freed->second;
  if (!list || old) return {};
  const auto used = observation.used_bytes.find(gpu);
  if (used != observation.used_bytes.end() && used->second) {
    if (list->empty() && !is_leased(gpu)) idle_bytes_[gpu] = *used->second;
    if (pool_gpu != gpus_.end()) set_used_bytes(pool_gpu->second, *used->second);
  }
  if (!knows_unleased()) return {};
  std::vector<ObservedProcess> unleased;
  const bool is_split = pool_gpu != gpus_.end() && pool_gpu->second.is_split;
  const bool in_lease = is_leased(gpu);
  if (!allocator_ || !is_split) {
    std::ranges::copy_if(*list, std::back_inserter(unleased), [&](const ObservedProcess& one) {
      return is_unleased(one, in_lease, allocator_.has_value());
    });
  }
  return unleased_.update(gpu, std::move(unleased), in_lease, allocator_.has_value(), now);
}

void GpuPool::update_activity(const PoolGpu& gpu) {
  HiddenWork& work = hidden_work_[gpu.info.id];
  const bool in_lease = is_leased(gpu.info.id);
  if (!in_lease && gpu.activity) return work.update(*gpu.activity);
  // A GPU that is withheld for another reason shows nothing new: the evidence stays. An override
  // rests on the evidence, which stays as long as the override does.
  if (!in_lease && own_withheld_reason(gpu)) return;
  if (is_overridden(gpu.info.id, kInUse)) return;
  work.mark_accounted();
}

std::optional<WithheldReason> GpuPool::hidden_use(const DeviceId& id) const {
  const auto gpu = gpus_.find(id);
  const bool is_free = slots_.contains(id) && !is_leased(id);
  const auto hidden = gpu != gpus_.end() && is_free ? hidden_bytes(gpu->second) : std::nullopt;
  if (hidden) {
    return WithheldReason{
        kInUse, fmt::format("{:.1f} GiB of its memory is in use by processes not visible from here",
                            to_gib(*hidden))};
  }
  const auto work = hidden_work_.find(id);
  const auto found = work == hidden_work_.end() ? std::nullopt : work->second.evidence();
  if (!found) return std::nullopt;
  return WithheldReason{
      kInUse, fmt::format("busy ({}), although no lease and no listed process uses it", *found)};
}

std::optional<WithheldReason> GpuPool::own_withheld_reason(const PoolGpu& gpu) const {
  if (gpu.withheld.empty() || is_overridden(gpu.info.id, gpu.withheld)) return std::nullopt;
  return WithheldReason{gpu.withheld, gpu.text};
}

bool GpuPool::is_overridden(const DeviceId& id, std::string_view word) const {
  const auto found = overrides_.find(id);
  return found != overrides_.end() && found->second.contains(word);
}

void GpuPool::override_withholding(const DeviceId& id, const std::string& word) {
  overrides_[id].insert(word);
  observed_.insert(id);
}

void GpuPool::drop_unneeded_override(const DeviceId& id) {
  const auto found = overrides_.find(id);
  if (found == overrides_.end() || is_leased(id)) return;
  const auto gpu = gpus_.find(id);
  const bool unknown = gpu != gpus_.end() && gpu->second.withheld == kUnknown;
  const bool in_use = hidden_use(id).has_value();
  std::erase_if(found->second,
                [&](const std::string& word) { return !(word == kUnknown ? unknown : in_use); });
  if (found->second.empty()) overrides_.erase(found);
}

void GpuPool::reassign_slots() {
  slots_.clear();
  cordons_.clear();
  observed_.clear();
  for (const auto& [id, gpu] : gpus_) assign_slot(gpu);
}

GpuAvailability GpuPool::availability(const DeviceId& id) const {
  GpuAvailability now;
  const auto gpu = gpus_.find(id);
  now.in_service = gpu != gpus_.end() && !own_withheld_reason(gpu->second) && !cordon_of(id) &&
                   observed_.count(id) > 0;
  now.in_service = now.in_service && !allocator_;
  now.in_unleased_use =
      unleased_.all().contains(id) || (hidden_use(id) && !is_overridden(id, kInUse));
  if (gpu == gpus_.end()) return now;
  now.free_bytes = gpu->second.free_bytes;
  now.temperature_c = gpu->second.temperature_c;
  return now;
}

GpuSet GpuPool::eligible_gpus(const LeaseSpec& spec) const {
  GpuSet set;
  for (const auto& [id, slot] : slots_) {
    const auto found = gpus_.find(id);
    if (found == gpus_.end()) continue;
    const PoolGpu& gpu = found->second;
    const bool named = spec.allowed_gpus.empty() ||
                       std::ranges::find(spec.allowed_gpus, id) != spec.allowed_gpus.end();
    // A size that cannot be read now may be enough; one that the GPU does not report never is.
    const bool large = gpu.total_bytes ? *gpu.total_bytes >= spec.min_free_bytes
                                       : gpu.reports_memory || spec.min_free_bytes == 0;
    if (named && large && contains(gpu.info.name, spec.model)) set.set(slot);
  }
  return set;
}

std::vector<DeviceId> GpuPool::ids() const {
  const auto ids = std::views::keys(slots_);
  return {ids.begin(), ids.end()};
}

std::vector<DeviceId> GpuPool::ids_of(const GpuSet& set) const {
  std::set<std::pair<std::uint32_t, DeviceId>> found;
  for (const auto& [id, slot] : slots_) {
    if (!set[slot]) continue;
    const auto gpu = gpus_.find(id);
    found.emplace(gpu == gpus_.end() ? UINT32_MAX : gpu->second.info.index, id);
  }
  const auto sorted_ids = std::views::values(found);
  return {sorted_ids.begin(), sorted_ids.end()};
}

std::optional<WithheldReason> GpuPool::withheld_reason(const DeviceId& id) const {
  const auto gpu = gpus_.find(id);
  if (gpu == gpus_.end()) return WithheldReason{"lost", "not present"};
  if (const auto cordon = cordon_of(id)) {
    return WithheldReason{"cordoned",
                          fmt::format("cordoned by {}: {}", cordon->by, cordon->reason)};
  }
  if (auto own = own_withheld_reason(gpu->second)) return own;
  if (allocator_) {
    return WithheldReason{"observed", fmt::format("allocated by {}; gpuyard only observes it",
                                                  words_of(*allocator_).name)};
  }
  if (observed_.count(id) == 0) {
    return WithheldReason{"new", "its processes have not been checked yet"};
  }
  const auto unleased = unleased_.all().find(id);
  if (unleased == unleased_.all().end()) {
    auto hidden = hidden_use(id);
    return is_overridden(id, kInUse) ? std::nullopt : hidden;
  }
  const auto known = std::ranges::find(unleased->second, ObservedProcess::Attribution::outsider,
                                       &ObservedProcess::attribution);
  if (known == unleased->second.end()) {
    return WithheldReason{"unknown_process",
                          fmt::format("in use by a process not visible from here (PID {})",
                                      unleased->second.front().pid)};
  }
  return WithheldReason{"squatted", fmt::format("PID {} ({}) of UID {} uses it without a lease",
                                                known->pid, known->command, known->uid)};
}

}  // namespace gpuyard::lease
