#include "device/xid.h"

#include <algorithm>
#include <array>

namespace gpuyard {
namespace {

constexpr std::array kTable = {
    XidRow{13, Severity::note, "A program made the GPU do something illegal."},
    XidRow{31, Severity::note, "A program used GPU memory at an address that is not mapped."},
    XidRow{43, Severity::note, "A program was stopped after a fault of its own; the GPU goes on."},
    XidRow{45, Severity::note, "Work was cleared away early, as when its program ends."},
    XidRow{46, Severity::stop, "The GPU has stopped processing."},
    XidRow{48, Severity::stop, "A memory error of two bits, which cannot be corrected."},
    XidRow{54, Severity::stop, "The board gets no auxiliary power."},
    XidRow{62, Severity::stop, "A microcontroller inside the GPU has halted."},
    XidRow{63, Severity::note, "A failing row of memory will be replaced at the next reset."},
    XidRow{64, Severity::stop, "A failing row of memory could not be marked for replacement."},
    XidRow{74, Severity::stop, "An NVLink has failed."},
    XidRow{78, Severity::note, "A virtual GPU did not start."},
    XidRow{79, Severity::stop, "The GPU has fallen off the bus."},
    XidRow{92, Severity::note, "Corrected memory errors come unusually often."},
    XidRow{94, Severity::warn,
           "An uncorrectable memory error was contained: it costs one program, which should be "
           "started again."},
    XidRow{95, Severity::stop,
           "An uncorrectable memory error was not contained: any program on this GPU may have "
           "wrong data."},
    XidRow{109, Severity::stop, "The GPU did not switch between programs in time."},
    XidRow{110, Severity::stop, "The GPU reported a security fault."},
    XidRow{119, Severity::stop, "The GPU's system processor (GSP) did not answer in time."},
    XidRow{120, Severity::stop, "The GPU's system processor (GSP) has failed."},
    XidRow{121, Severity::note, "An error on the link between CPU and GPU was corrected."},
    XidRow{136, Severity::stop, "An NVLink could not be brought up."},
    XidRow{137, Severity::note, "A program's access over NVLink was refused."},
    XidRow{140, Severity::stop, "An uncorrectable memory error had escaped earlier detection."},
    XidRow{143, Severity::stop, "The GPU could not be initialised."},
    XidRow{154, Severity::warn, "What would bring the GPU back to order has changed."},
};
static_assert(std::ranges::is_sorted(kTable, {}, &XidRow::number));

}  // namespace

std::span<const XidRow> xid_table() {
  return kTable;
}

XidRow xid_row(std::uint32_t number) {
  const auto row = std::ranges::lower_bound(kTable, number, {}, &XidRow::number);
  if (row != kTable.end() && row->number == number) return *row;
  return {number, Severity::note, "What it means is not known here."};
}

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
