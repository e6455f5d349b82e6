// What one listener of GET /gpu/stream_power gets: of each GPU the newest power that it has not got
// yet. Lives on the io thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "http/feed.h"
#include "zeus/handlers.h"

namespace gpuyard::zeus {

class GpuPowerFeed final : public http::Feed {
 public:
  static constexpr Duration kPeriod = std::chrono::milliseconds(50);  // zeusd's, unless it is told

  // Reads these GPUs every kPeriod for as long as the feed lives. What it tells is rendered once
  // for all listeners that `shared` is given to.
  GpuPowerFeed(Gpus&, const std::vector<DeviceInfo>&, GpuPowerChunks& shared);

  http::Chunk next() override;
  // Its clients come back at once after an end, and only after a while when the connection breaks.
  bool may_end() const override { return false; }

 private:
  struct Waiting {
    std::uint32_t index = 0;
    std::optional<Reading> reading;  // with a number, not taken yet
  };

  Gpus& gpus_;
  GpuPowerChunks& shared_;
  std::vector<Waiting> waiting_;
  std::size_t turn_ = 0;  // whose turn it is, so that none is starved by those before it
  std::vector<Subscription> listening_;
};

}  // namespace gpuyard::zeus
