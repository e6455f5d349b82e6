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
#include "device/device.h"
#include "device/event.h"

namespace gpuyard {

struct XidRow {
  std::uint32_t number;
  Severity severity;
  std::string_view meaning;  // one plain sentence
};

// Sorted by number.
std::span<const XidRow> xid_table();

// An uncorrectable memory error that cost one process and nothing else.
inline constexpr std::uint32_t kXidContained = 94;

// Returns the row of a number; for an unknown one, a note that says so.
XidRow xid_row(std::uint32_t number);

// Counts the Xids of each GPU since the daemon started, with the time of the last.

struct XidCount {
  std::optional<std::uint32_t> xid;  // empty: all beyond the first kMostDistinct of a GPU
  std::uint64_t count = 0;
  WallTime last_seen;

  friend bool operator==(const XidCount&, const XidCount&) = default;
};

class XidCounts {
 public:
  void note(const DeviceId&, std::uint32_t xid, WallTime seen);

  // Returns the counts by number; the one without a number is last.
  std::vector<XidCount> of(const DeviceId&) const;

  static constexpr std::size_t kMostDistinct = 16;

 private:
  struct Tally {
    std::uint64_t count = 0;
    WallTime last_seen;
    void note(WallTime seen);
  };
  struct Gpu {
    std::map<std::uint32_t, Tally> by_xid;
    Tally others;
  };
  std::map<DeviceId, Gpu> gpus_;  // grows only with the number of GPUs seen
};

}  // namespace gpuyard
