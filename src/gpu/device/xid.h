// The driver's error numbers (Xid), as far as their meaning is public. Data only; nothing here acts
// on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "gpu/device/device.h"
#include "gpu/device/event.h"

namespace gpuyard {

// The part of the kernel's line that gives the severity of an Xid, if its number alone does not.
enum class XidLine : std::uint8_t {
  nothing,   // the number says it
  fatal,     // NVLink 5: "Fatal" or "Nonfatal" is a word of the line
  recovery,  // Xid 154: the line ends with what the GPU needs, "(GPU Reset Required)"
};

struct XidRow {
  std::uint32_t number;
  EventSeverity severity;    // if `line` does not say it
  std::string_view meaning;  // one plain sentence
  XidLine line = XidLine::nothing;
};

// Sorted by number.
std::span<const XidRow> xid_table();

// An uncorrectable memory error that cost one process and nothing else.
inline constexpr std::uint32_t kXidContained = 94;

// Returns the row of a number; for an unknown one, a note that says so.
XidRow xid_row(std::uint32_t number);

// Returns how bad the Xid is. `line`: the kernel's words about it, or "".
EventSeverity xid_severity(std::uint32_t number, std::string_view line);
// The same of any event.
EventSeverity severity_of(const DeviceEvent&);

// Counts the Xids of each GPU since the daemon started, with the time of the last.
struct XidCount {
  std::optional<std::uint32_t> xid;  // empty: all beyond the first kMaxDistinct of a GPU
  std::uint64_t count = 0;
  WallTime last_seen;

  friend bool operator==(const XidCount&, const XidCount&) = default;
};

class XidCounter {
 public:
  void record(const DeviceId&, std::uint32_t xid, WallTime seen);

  // Returns the counts by number; the one without a number is last.
  std::vector<XidCount> counts_of(const DeviceId&) const;

  static constexpr std::size_t kMaxDistinct = 16;
  static constexpr std::size_t kReservedForStops = 4;  // of these, only for Xids that stop work

 private:
  struct Tally {
    std::uint64_t count = 0;
    WallTime last_seen;
    void record(WallTime seen);
  };
  struct Gpu {
    std::map<std::uint32_t, Tally> by_xid;
    Tally others;
  };
  std::map<DeviceId, Gpu> gpus_;  // grows only with the number of GPUs seen
};

}  // namespace gpuyard
