#include "device/xid_counts.h"

#include <algorithm>

namespace gpuyard {

void XidCounts::Tally::note(WallTime seen) {
  ++count;
  last_seen = std::max(last_seen, seen);
}

void XidCounts::note(const DeviceId& device, std::uint32_t xid, WallTime seen) {
  Gpu& gpu = gpus_[device];
  const bool fits = gpu.by_xid.contains(xid) || gpu.by_xid.size() < kMostDistinct;
  (fits ? gpu.by_xid[xid] : gpu.others).note(seen);
}

std::vector<XidCount> XidCounts::of(const DeviceId& device) const {
  std::vector<XidCount> counts;
  const auto gpu = gpus_.find(device);
  if (gpu == gpus_.end()) return counts;
  for (const auto& [xid, tally] : gpu->second.by_xid) {
    counts.push_back({xid, tally.count, tally.last_seen});
  }
  const Tally& others = gpu->second.others;
  if (others.count > 0) counts.push_back({std::nullopt, others.count, others.last_seen});
  return counts;
}

}  // namespace gpuyard
