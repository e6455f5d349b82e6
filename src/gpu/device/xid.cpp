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
    XidRow{13, Severity::note, "A program performed an illegal operation on the GPU."},
    XidRow{31, Severity::note, "A program accessed an unmapped GPU memory address."},
    XidRow{32, Severity::note, "The commands of a program reached the GPU corrupted."},
    XidRow{43, Severity::note, "A program was stopped after its own fault; the GPU keeps working."},
    XidRow{45, Severity::note, "Work was removed early, as when its program ends."},
    XidRow{46, Severity::stop, "The GPU has stopped processing."},
    XidRow{48, Severity::stop, "An uncorrectable double-bit memory error."},
    XidRow{54, Severity::stop, "The board has no auxiliary power."},
    XidRow{60, Severity::note, kVideo},
    XidRow{62, Severity::stop, "A microcontroller inside the GPU has halted."},
    XidRow{63, Severity::note, "A failing memory row will be remapped at the next reset."},
    XidRow{64, Severity::stop, "A failing memory row could not be marked for remapping."},
    XidRow{66, Severity::note, "The driver made an illegal access to the GPU."},
    XidRow{67, Severity::note, "The driver made an illegal access to the GPU."},
    XidRow{68, Severity::note, kVideo},
    XidRow{69, Severity::note, "A program gave the graphics engine an illegal command."},
    XidRow{70, Severity::note, kCopy},
    XidRow{71, Severity::note, kCopy},
    XidRow{72, Severity::note, kCopy},
    XidRow{74, Severity::stop, "An NVLink has failed."},
    XidRow{75, Severity::note, kCopy},
    XidRow{76, Severity::note, kCopy},
    XidRow{77, Severity::note, kCopy},
    XidRow{78, Severity::note, "A virtual GPU did not start."},
    XidRow{79, Severity::stop, "The GPU has fallen off the bus."},
    XidRow{80, Severity::note, "Data sent to the GPU arrived corrupted."},
    XidRow{82, Severity::note, kVideo},
    XidRow{83, Severity::note, kVideo},
    XidRow{84, Severity::note, kVideo},
    XidRow{85, Severity::note, kCopy},
    XidRow{86, Severity::note, kFlow},
    XidRow{88, Severity::note, kVideo},
    XidRow{89, Severity::note, kVideo},
    XidRow{92, Severity::note, "Corrected memory errors are unusually frequent."},
    XidRow{93, Severity::note, "The infoROM was not written because its write limit is reached."},
    XidRow{94, Severity::warn,
           "An uncorrectable memory error was contained: one program is affected and should be "
           "restarted."},
    XidRow{95, Severity::stop,
           "An uncorrectable memory error was not contained: any program on this GPU may have "
           "wrong data."},
    XidRow{96, Severity::note, kVideo},
    XidRow{97, Severity::note, kVideo},
    XidRow{98, Severity::note, kVideo},
    XidRow{99, Severity::note, kVideo},
    XidRow{100, Severity::note, kVideo},
    XidRow{101, Severity::note, kVideo},
    XidRow{102, Severity::note, kVideo},
    XidRow{103, Severity::note, kVideo},
    XidRow{104, Severity::note, kVideo},
    XidRow{105, Severity::note, kVideo},
    XidRow{109, Severity::stop, "The GPU did not switch between programs in time."},
    XidRow{110, Severity::stop, "The GPU reported a security fault."},
    XidRow{119, Severity::stop, "The GPU's system processor (GSP) did not respond in time."},
    XidRow{120, Severity::stop, "The GPU's system processor (GSP) has failed."},
    XidRow{121, Severity::note, "An error on the link between CPU and GPU was corrected."},
    XidRow{125, Severity::warn, "The file system of the infoROM has an error."},
    XidRow{126, Severity::note, kCopy},
    XidRow{127, Severity::note, kCopy},
    XidRow{128, Severity::note, kCopy},
    XidRow{129, Severity::note, kCopy},
    XidRow{130, Severity::note, kCopy},
    XidRow{131, Severity::note, kCopy},
    XidRow{132, Severity::note, kCopy},
    XidRow{133, Severity::note, kCopy},
    XidRow{134, Severity::note, kCopy},
    XidRow{135, Severity::note, kCopy},
    XidRow{136, Severity::stop, "An NVLink could not be brought up."},
    XidRow{137, Severity::note, "A program's access over NVLink was refused."},
    XidRow{139, Severity::note, kFlow},
    XidRow{140, Severity::stop, "An uncorrectable memory error had escaped earlier detection."},
    XidRow{141, Severity::note, "The fast path of CUDA had an error."},
    XidRow{142, Severity::note, kVideo},
    XidRow{143, Severity::stop, "The GPU could not be initialised."},
    XidRow{144, Severity::warn, "An NVLink error in the SAW unit.", XidLine::fatal},
    XidRow{145, Severity::warn, "An NVLink error in the RLW unit.", XidLine::fatal},
    XidRow{146, Severity::warn, "An NVLink error in the TLW unit.", XidLine::fatal},
    XidRow{147, Severity::warn, "An NVLink error in the TREX unit.", XidLine::fatal},
    XidRow{148, Severity::warn, "An NVLink error in the power control (NVLPW).", XidLine::fatal},
    XidRow{149, Severity::warn, "An NVLink error in the network interface (NETIR).",
           XidLine::fatal},
    XidRow{150, Severity::warn, "An NVLink error in the management engine (MSE).", XidLine::fatal},
    XidRow{151, Severity::stop,
           "A confidential computing key could not be renewed: the virtual machine must be "
           "restarted."},
    XidRow{152, Severity::note,
           "The deep-learning accelerator (DLA) made an illegal memory access."},
    XidRow{153, Severity::note, "The deep-learning accelerator (DLA) did not respond in time."},
    XidRow{154, Severity::warn, "The recommended recovery action for the GPU has changed.",
           XidLine::recovery},
    XidRow{155, Severity::warn, "An NVLink was taken down by software, perhaps on purpose."},
    XidRow{156, Severity::warn, "A failing part of the GPU will be retired at the next reset."},
    XidRow{157, Severity::warn,
           "A failing part of the GPU could not be retired: no spare is left."},
    XidRow{158, Severity::stop, "A fatal timeout of the GPU."},
    XidRow{159, Severity::warn, "An error on the link between CPU and GPU, not in data."},
    XidRow{160, Severity::note, "A failing memory channel was retired."},
    XidRow{161, Severity::warn, "A failing memory channel could not be retired."},
    XidRow{162, Severity::note, "The circuit that smooths the GPU's power draw works again."},
    XidRow{163, Severity::warn, "The circuit that smooths the GPU's power draw was disabled."},
    XidRow{164, Severity::warn,
           "The circuit that smooths the GPU's power draw is near the end of its life."},
    XidRow{165, Severity::warn,
           "The circuit that smooths the GPU's power draw is at the end of its life."},
    XidRow{166, Severity::warn, "An NVLink carried data before its encryption was set up."},
    XidRow{167, Severity::stop, "The PCIe link of the GPU did not respond in time."},
    XidRow{168, Severity::warn,
           "The GPU has less memory than it should, because a protected region has errors."},
    XidRow{169, Severity::stop, "The security processor of the GPU (SEC2) has halted."},
    XidRow{170, Severity::warn, "An NVLink had an error while encrypted."},
    XidRow{171, Severity::warn,
           "An uncorrectable memory error occurred in the GPU's DRAM; another Xid reports the "
           "consequences."},
    XidRow{172, Severity::warn,
           "An uncorrectable memory error occurred in the GPU's SRAM; another Xid reports the "
           "consequences."},
};
static_assert(std::ranges::is_sorted(kTable, {}, &XidRow::number));

// "NETIR_LINK_DOWN Fatal XC0 i0 Link 14", "RLW_SRC_TRACK Nonfatal XC1 i0 Link 17 (...)".
std::optional<Severity> by_fatal(std::string_view line) {
  while (!line.empty()) {
    const std::string_view word = take_until(' ', line);
    if (word == "Fatal") return Severity::stop;
    if (word == "Nonfatal" || word == "Non-fatal") return Severity::note;
  }
  return std::nullopt;
}

// "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)": the last action
// counts.
std::optional<Severity> by_recovery(std::string_view line) {
  const std::size_t at = line.rfind('(');
  if (at == line.npos) return std::nullopt;
  const std::string_view action = line.substr(at);
  if (action.starts_with("(None)")) return Severity::note;
  for (const std::string_view needs : {"Reset", "Reboot"}) {
    if (action.find(needs) != action.npos) return Severity::stop;
  }
  return Severity::warn;
}

}  // namespace

std::span<const XidRow> xid_table() {
  return kTable;
}

XidRow xid_row(std::uint32_t number) {
  const auto row = std::ranges::lower_bound(kTable, number, {}, &XidRow::number);
  if (row != kTable.end() && row->number == number) return *row;
  return {number, Severity::note, "Its meaning is not known to gpuyard."};
}

Severity xid_severity(std::uint32_t number, std::string_view line) {
  const XidRow row = xid_row(number);
  switch (row.line) {
    case XidLine::fatal:
      return by_fatal(line).value_or(row.severity);
    case XidLine::recovery:
      return by_recovery(line).value_or(row.severity);
    case XidLine::nothing:
      break;
  }
  return row.severity;
}

Severity severity_of(const DeviceEvent& event) {
  switch (event.kind) {
    case EventKind::xid:
      return event.xid ? xid_severity(*event.xid, event.text) : Severity::note;
    case EventKind::ecc_corrected:
      return Severity::note;
    case EventKind::poison:
    case EventKind::recovery_action:
    case EventKind::events_lost:
      return Severity::warn;
    case EventKind::ecc_uncorrected:
    case EventKind::fatal_poison:
    case EventKind::unavailable:
      break;
  }
  return Severity::stop;
}

void XidCounts::Tally::note(WallTime seen) {
  ++count;
  last_seen = std::max(last_seen, seen);
}

void XidCounts::note(const DeviceId& device, std::uint32_t xid, WallTime seen) {
  Gpu& gpu = gpus_[device];
  const bool stops = xid_row(xid).severity == Severity::stop;
  const std::size_t most = stops ? kMostDistinct : kMostDistinct - kForStops;
  const bool fits = gpu.by_xid.contains(xid) || gpu.by_xid.size() < most;
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
