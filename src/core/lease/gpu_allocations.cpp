#include "core/lease/gpu_allocations.h"

#include <utility>

#include <fmt/format.h>

namespace gpuyard::lease {
namespace {

constexpr std::int64_t kAllMemory = INT64_MAX;

}  // namespace

std::optional<TimePoint> Claim::expected_end() const {
  if (!request.max_hold_time || overdue || late) return std::nullopt;
  return saturating_add(granted_at, *request.max_hold_time);
}

Result<Slot> GpuAllocations::add(Gpu gpu) {
  gpu.known = true;
  Slot slot = 0;
  while (slot < gpus_.size() && gpus_[slot].known) ++slot;
  if (slot == kMaxGpus) {
    return Error{Errc::busy, fmt::format("a pool holds at most {} GPUs", kMaxGpus)};
  }
  if (slot == gpus_.size()) gpus_.emplace_back();
  gpus_[slot] = std::move(gpu);
  known_.set(slot);
  return slot;
}

bool GpuAllocations::remove(Slot slot) {
  if (slot >= gpus_.size() || taken_[slot]) return false;
  gpus_[slot] = Gpu{};
  gpus_[slot].known = false;
  known_.reset(slot);
  return true;
}

void GpuAllocations::set_topology(Slot slot, std::optional<unsigned> clique,
                                  std::optional<unsigned> numa_node) {
  if (slot >= gpus_.size() || !known_[slot]) return;
  gpus_[slot].clique = clique;
  gpus_[slot].numa_node = numa_node;
}

bool GpuAllocations::set_availability(Slot slot, GpuAvailability availability) {
  if (slot >= gpus_.size() || !known_[slot]) return false;
  GpuAvailability before = std::exchange(gpus_[slot].availability, availability);
  before.temperature_c = availability.temperature_c;  // no claim waits for it
  return before != availability;
}

void GpuAllocations::insert(const Claim& claim) {
  taken_ |= claim.gpus;
  gpus_by_owner_[claim.request.owner] += static_cast<unsigned>(claim.gpus.count());
  claims_.emplace(claim.ticket, claim);
}

void GpuAllocations::release(Claims::iterator ended) {
  const Claim& claim = ended->second;
  taken_ &= ~claim.gpus;
  // The free memory beside a holder does not show how much is free after it. Its processes have
  // been seen to end, so all of the memory is free until the next reading.
  for_each_slot(claim.gpus, [&](Slot slot) { gpus_[slot].availability.free_bytes = kAllMemory; });
  const auto held = gpus_by_owner_.find(claim.request.owner);
  held->second -= static_cast<unsigned>(claim.gpus.count());
  if (held->second == 0) gpus_by_owner_.erase(held);
  claims_.erase(ended);
}

std::optional<Ticket> GpuAllocations::holder(Slot slot) const {
  if (slot >= kMaxGpus || !taken_[slot]) return std::nullopt;
  for (const auto& [ticket, claim] : claims_) {
    if (claim.gpus[slot]) return ticket;
  }
  return std::nullopt;
}

GpuSet GpuAllocations::in_service() const {
  GpuSet all = known_;
  for_each_slot(known_, [&](Slot slot) {
    if (!gpus_[slot].availability.in_service) all.reset(slot);
  });
  return all;
}

GpuSet GpuAllocations::open() const {
  GpuSet open = known_ & ~taken_;
  for_each_slot(open, [&](Slot slot) {
    const GpuAvailability& now = gpus_[slot].availability;
    if (!now.in_service || now.in_unleased_use) open.reset(slot);
  });
  return open;
}

GpuSet GpuAllocations::attainable(const GpuRequest& request, const GpuSet& open,
                                  const GpuSet& in_service) const {
  return usable(request, open) | (request.eligible & in_service & taken_);
}

GpuSet GpuAllocations::usable(const GpuRequest& request, GpuSet candidates) const {
  candidates &= request.eligible;
  if (request.min_free_bytes == 0) return candidates;
  for_each_slot(candidates, [&](Slot slot) {
    if (gpus_[slot].availability.free_bytes.value_or(0) < request.min_free_bytes)
      candidates.reset(slot);
  });
  return candidates;
}

bool GpuAllocations::is_over_quota(const GpuRequest& request) const {
  if (max_gpus_per_owner_ == 0) return false;
  const auto found = gpus_by_owner_.find(request.owner);
  const unsigned held = found == gpus_by_owner_.end() ? 0 : found->second;
  return held + request.count > max_gpus_per_owner_;
}

bool GpuAllocations::can_start(const GpuRequest& request, const GpuSet& open,
                               const GpuSet& in_service) const {
  return !is_over_quota(request) && attainable(request, open, in_service).count() >= request.count;
}

}  // namespace gpuyard::lease
