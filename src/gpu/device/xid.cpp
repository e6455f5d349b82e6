#include "gpu/device/xid.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/text.h"

namespace gpuyard {
namespace {

// Engines of a GPU, of which a GPU has several, and each its own number.
constexpr std::string_view kCopy = "A copy engine had an error: its program should be restarted.";
constexpr std::string_view kVideo = "A video engine had an error: its program should be restarted.";
constexpr std::string_view kFlow =
    "The optical flow engine had an error: its program should be restarted.";

// From NVIDIA's Xid catalog. An Xid that calls for a reset stops work; one that calls for the
// program to be started again, or for nothing, is a note.
constexpr std::array kTable = {
    XidRow{13, EventSeverity::note, "A program performed an illegal operation on the GPU."},
    XidRow{31, EventSeverity::note, "A program accessed an unmapped GPU memory address."},
    XidRow{32, EventSeverity::note, "The commands of a program reached the GPU corrupted."},
    XidRow{43, EventSeverity::note,
           "A program was stopped after its own fault; the GPU keeps working."},
    XidRow{45, EventSeverity::note, "Work was removed early, as when its program ends."},
    XidRow{46, EventSeverity::stop, "The GPU has stopped processing."},
    XidRow{48, EventSeverity::stop, "An uncorrectable double-bit memory error."},
    XidRow{54, EventSeverity::stop, "The board has no auxiliary power."},
    XidRow{60, EventSeverity::note, kVideo},
    XidRow{62, EventSeverity::stop, "A microcontroller inside the GPU has halted."},
    XidRow{63, EventSeverity::note, "A failing memory row will be remapped at the next reset."},
    XidRow{64, EventSeverity::stop, "A failing memory row could not be marked for remapping."},
    XidRow{66, EventSeverity::note, "The driver made an illegal access to the GPU."},
    XidRow{67, EventSeverity::note, "The driver made an illegal access to the GPU."},
    XidRow{68, EventSeverity::note, kVideo},
    XidRow{69, EventSeverity::note, "A program gave the graphics engine an illegal command."},
    XidRow{70, EventSeverity::note, kCopy},
    XidRow{71, EventSeverity::note, kCopy},
    XidRow{72, EventSeverity::note, kCopy},
    XidRow{74, EventSeverity::stop, "An NVLink has failed."},
    XidRow{75, EventSeverity::note, kCopy},
    XidRow{76, EventSeverity::note, kCopy},
    XidRow{77, EventSeverity::note, kCopy},
    XidRow{78, EventSeverity::note, "A virtual GPU did not start."},
    XidRow{79, EventSeverity::stop, "The GPU has fallen off the bus."},
    XidRow{80, EventSeverity::note, "Data sent to the GPU arrived corrupted."},
    XidRow{82, EventSeverity::note, kVideo},
    XidRow{83, EventSeverity::note, kVideo},
    XidRow{84, EventSeverity::note, kVideo},
    XidRow{85, EventSeverity::note, kCopy},
    XidRow{86, EventSeverity::note, kFlow},
    XidRow{88, EventSeverity::note, kVideo},
    XidRow{89, EventSeverity::note, kVideo},
    XidRow{92, EventSeverity::note, "Corrected memory errors are unusually frequent."},
    XidRow{93, EventSeverity::note,
           "The infoROM was not written because its write limit is reached."},
    XidRow{94, EventSeverity::warn,
           "An uncorrectable memory error was contained: one program is affected and should be "
           "restarted."},
    XidRow{95, EventSeverity::stop,
           "An uncorrectable memory error was not contained: any program on this GPU may have "
           "wrong data."},
    XidRow{96, EventSeverity::note, kVideo},
    XidRow{97, EventSeverity::note, kVideo},
    XidRow{98, EventSeverity::note, kVideo},
    XidRow{99, EventSeverity::note, kVideo},
    XidRow{100, EventSeverity::note, kVideo},
    XidRow{101, EventSeverity::note, kVideo},
    XidRow{102, EventSeverity::note, kVideo},
    XidRow{103, EventSeverity::note, kVideo},
    XidRow{104, EventSeverity::note, kVideo},
    XidRow{105, EventSeverity::note, kVideo},
    XidRow{109, EventSeverity::stop, "The GPU did not switch between programs in time."},
    XidRow{110, EventSeverity::stop, "The GPU reported a security fault."},
    XidRow{119, EventSeverity::stop, "The GPU's system processor (GSP) did not respond in time."},
    XidRow{120, EventSeverity::stop, "The GPU's system processor (GSP) has failed."},
    XidRow{121, EventSeverity::note, "An error on the link between CPU and GPU was corrected."},
    XidRow{125, EventSeverity::warn, "The file system of the infoROM has an error."},
    XidRow{126, EventSeverity::note, kCopy},
    XidRow{127, EventSeverity::note, kCopy},
    XidRow{128, EventSeverity::note, kCopy},
    XidRow{129, EventSeverity::note, kCopy},
    XidRow{130, EventSeverity::note, kCopy},
    XidRow{131, EventSeverity::note, kCopy},
    XidRow{132, EventSeverity::note, kCopy},
    XidRow{133, EventSeverity::note, kCopy},
    XidRow{134, EventSeverity::note, kCopy},
    XidRow{135, EventSeverity::note, kCopy},
    XidRow{136, EventSeverity::stop, "An NVLink could not be brought up."},
    XidRow{137, EventSeverity::note, "A program's access over NVLink was refused."},
    XidRow{139, EventSeverity::note, kFlow},
    XidRow{140, EventSeverity::stop,
           "An uncorrectable memory error had escaped earlier detection."},
    XidRow{141, EventSeverity::note, "The fast path of CUDA had an error."},
    XidRow{142, EventSeverity::note, kVideo},
    XidRow{143, EventSeverity::stop, "The GPU could not be initialised."},
    XidRow{144, EventSeverity::warn, "An NVLink error in the SAW unit.", XidLine::fatal},
    XidRow{145, EventSeverity::warn, "An NVLink error in the RLW unit.", XidLine::fatal},
    XidRow{146, EventSeverity::warn, "An NVLink error in the TLW unit.", XidLine::fatal},
    XidRow{147, EventSeverity::warn, "An NVLink error in the TREX unit.", XidLine::fatal},
    XidRow{148, EventSeverity::warn, "An NVLink error in the power control (NVLPW).",
           XidLine::fatal},
    XidRow{149, EventSeverity::warn, "An NVLink error in the network interface (NETIR).",
           XidLine::fatal},
    XidRow{150, EventSeverity::warn, "An NVLink error in the management engine (MSE).",
           XidLine::fatal},
    XidRow{151, EventSeverity::stop,
           "A confidential computing key could not be renewed: the virtual machine must be "
           "restarted."},
    XidRow{152, EventSeverity::note,
           "The deep-learning accelerator (DLA) made an illegal memory access."},
    XidRow{153, EventSeverity::note,
           "The deep-learning accelerator (DLA) did not respond in time."},
    XidRow{154, EventSeverity::warn, "The recommended recovery action for the GPU has changed.",
           XidLine::recovery},
    XidRow{155, EventSeverity::warn, "An NVLink was taken down by software, perhaps on purpose."},
    XidRow{156, EventSeverity::warn,
           "A failing part of the GPU will be retired at the next reset."},
    XidRow{157, EventSeverity::warn,
           "A failing part of the GPU could not be retired: no spare is left."},
    XidRow{158, EventSeverity::stop, "A fatal timeout of the GPU."},
    XidRow{159, EventSeverity::warn, "An error on the link between CPU and GPU, not in data."},
    XidRow{160, EventSeverity::note, "A failing memory channel was retired."},
    XidRow{161, EventSeverity::warn, "A failing memory channel could not be retired."},
    XidRow{162, EventSeverity::note, "The circuit that smooths the GPU's power draw works again."},
    XidRow{163, EventSeverity::warn, "The circuit that smooths the GPU's power draw was disabled."},
    XidRow{164, EventSeverity::warn,
           "The circuit that smooths the GPU's power draw is near the end of its life."},
    XidRow{165, EventSeverity::warn,
           "The circuit that smooths the GPU's power draw is at the end of its life."},
    XidRow{166, EventSeverity::warn, "An NVLink carried data before its encryption was set up."},
    XidRow{167, EventSeverity::stop, "The PCIe link of the GPU did not respond in time."},
    XidRow{168, EventSeverity::warn,
           "The GPU has less memory than it should, because a protected region has errors."},
    XidRow{169, EventSeverity::stop, "The security processor of the GPU (SEC2) has halted."},
    XidRow{170, EventSeverity::warn, "An NVLink had an error while encrypted."},
    XidRow{171, EventSeverity::warn,
           "An uncorrectable memory error occurred in the GPU's DRAM; another Xid reports the "
           "consequences."},
    XidRow{172, EventSeverity::warn,
           "An uncorrectable memory error occurred in the GPU's SRAM; another Xid reports the "
           "consequences."},
};
static_assert(std::ranges::is_sorted(kTable, {}, &XidRow::number));

// "NETIR_LINK_DOWN Fatal XC0 i0 Link 14", "RLW_SRC_TRACK Nonfatal XC1 i0 Link 17 (...)".
std::optional<EventSeverity> fatal_line_severity(std::string_view line) {
  while (!line.empty()) {
    const std::string_view word = take_until(' ', line);
    if (word == "Fatal") return EventSeverity::stop;
    if (word == "Nonfatal" || word == "Non-fatal") return EventSeverity::note;
  }
  return std::nullopt;
}

// "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)": the last action
// counts.
std::optional<EventSeverity> recovery_line_severity(std::string_view line) {
  const std::size_t at = line.rfind('(');
  if (at == line.npos) return std::nullopt;
  const std::string_view action = line.substr(at);
  if (action.starts_with("(None)")) return EventSeverity::note;
  for (const std::string_view needs : {"Reset", "Reboot"}) {
    if (action.find(needs) != action.npos) return EventSeverity::stop;
  }
  return EventSeverity::warn;
}

}  // namespace

std::span<const XidRow> xid_table() {
  return kTable;
}

XidRow xid_row(std::uint32_t number) {
  const auto row = std::ranges::lower_bound(kTable, number, {}, &XidRow::number);
  if (row != kTable.end() && row->number == number) return *row;
  return {number, EventSeverity::note, "Its meaning is not known to gpuyard."};
}

EventSeverity xid_severity(std::uint32_t number, std::string_view line) {
  const XidRow row = xid_row(number);
  switch (row.line) {
    case XidLine::fatal:
      return fatal_line_severity(line).value_or(row.severity);
    case XidLine::recovery:
      return recovery_line_severity(line).value_or(row.severity);
    case XidLine::nothing:
      break;
  }
  return row.severity;
}

EventSeverity severity_of(const DeviceEvent& event) {
  switch (event.kind) {
    case EventKind::xid:
      return event.xid ? xid_severity(*event.xid, event.text) : EventSeverity::note;
    case EventKind::ecc_corrected:
      return EventSeverity::note;
    case EventKind::poison:
    case EventKind::recovery_action:
    case EventKind::events_lost:
      return EventSeverity::warn;
    case EventKind::ecc_uncorrected:
    case EventKind::fatal_poison:
    case EventKind::unavailable:
      break;
  }
  return EventSeverity::stop;
}

void XidCounter::Tally::record(WallTime seen) {
  ++count;
  last_seen = std::max(last_seen, seen);
}

void XidCounter::record(const DeviceId& device, std::uint32_t xid, WallTime seen) {
  Gpu& gpu = gpus_[device];
  const bool stops = xid_row(xid).severity == EventSeverity::stop;
  const std::size_t max_distinct = stops ? kMaxDistinct : kMaxDistinct - kReservedForStops;
  const bool fits = gpu.by_xid.contains(xid) || gpu.by_xid.size() < max_distinct;
  (fits ? gpu.by_xid[xid] : gpu.others).record(seen);
}

std::vector<XidCount> XidCounter::counts_of(const DeviceId& device) const {
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
