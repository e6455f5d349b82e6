// How often each GPU had which Xid since the daemon started, and when last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "device/device.h"

namespace gpuyard {

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
