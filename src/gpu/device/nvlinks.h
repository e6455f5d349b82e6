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

// Which links a GPU has, and which of them are up, a bit for each number.
struct NvlinkStates {
  std::uint64_t present = 0;
  std::uint64_t up = 0;

  friend bool operator==(const NvlinkStates&, const NvlinkStates&) = default;
};

// Returns no link if it is not known of all whether they are up: they were not read, one failed to
// be read, or the GPU is in MIG mode, which has no NVLink.
NvlinkStates nvlinks_of(const DeviceState&);

// Returns the numbers of the links whose bits are set.
std::vector<std::uint16_t> link_numbers(std::uint64_t links);

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
  std::uint64_t were_up_ = 0;
  std::map<std::uint16_t, TimePoint> down_since_;  // of links that were up
};

}  // namespace gpuyard
