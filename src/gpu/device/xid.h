// The driver's numbers for what goes wrong, as far as their meaning is public: data, and nothing
// that acts on it.
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

// By number.
std::span<const XidRow> xid_table();

// An uncorrectable memory error that cost one process and nothing else.
inline constexpr std::uint32_t kXidContained = 94;

// Of a number that is not in the table: a note that says so.
XidRow xid_row(std::uint32_t number);

// How often each GPU had which Xid since the daemon started, and when last.

struct XidCount {
  std::optional<std::uint32_t> xid;  // empty: all beyond the first kMostDistinct of a GPU together
  std::uint64_t count = 0;
  WallTime last_seen;

  friend bool operator==(const XidCount&, const XidCount&) = default;
};

class XidCounts {
 public:
  void note(const DeviceId&, std::uint32_t xid, WallTime seen);

  // By number, those without one last.
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
  std::map<DeviceId, Gpu> gpus_;  // as many as there were GPUs
};

}  // namespace gpuyard
