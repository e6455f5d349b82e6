// Remembers which NVLinks of a GPU were up. Only the change tells that a link is down: links that
// nothing is connected to are down as long as the board is in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gpu/device/snapshot.h"

namespace gpuyard {

// Each link of the GPU by its number, and whether it is up. Empty if it is not known of all: they
// were not read, one failed to be read, or the GPU is in MIG mode, which has no NVLink.
std::map<std::uint16_t, bool> nvlinks_of(const DeviceState&);

// "0-17", "3", "0, 4-7"
std::string format_links(std::span<const std::uint16_t> in_order);

struct LostNvlinks {
  std::size_t up = 0;
  std::size_t all = 0;
  std::vector<std::uint16_t> down = {};  // links that were up, and are down now
  std::optional<TimePoint> since = {};   // when the first of them was found down
};

// Pure state of one GPU. It lasts as long as its owner: links that went down before that are not
// distinguished from links that nothing is connected to.
class NvlinkTracker {
 public:
  // Returns nothing if the links are not known now; that changes nothing.
  std::optional<LostNvlinks> update(const DeviceState&, TimePoint now);

 private:
  // The links that were up, and since when each is down.
  std::map<std::uint16_t, std::optional<TimePoint>> down_since_;
};

}  // namespace gpuyard
