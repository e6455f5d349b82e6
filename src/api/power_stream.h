// What one listener of GET /api/gpu/stream/power gets: of each GPU the newest reading that it has
// not got yet. Lives on the io thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/loop.h"
#include "device/device.h"
#include "http/feed.h"
#include "telemetry/telemetry.h"

namespace gpuyard::api {

using PowerChunks = std::map<DeviceId, http::SharedChunk>;

class PowerFeed final : public http::Feed {
 public:
  // Reads these GPUs every `period` for as long as the feed lives. What it tells is rendered once
  // for all listeners that `shared` is given to.
  PowerFeed(telemetry::Telemetry&, const std::vector<DeviceInfo>& gpus, Duration period,
            PowerChunks& shared);

  http::Chunk next() override;

 private:
  struct Waiting {
    DeviceInfo gpu;
    std::optional<Reading> reading;  // not taken yet
    std::uint64_t skipped = 0;       // since the one that was taken last
  };

  void hear(std::size_t gpu, const Reading&);

  telemetry::Telemetry& telemetry_;
  PowerChunks& shared_;
  std::vector<Waiting> gpus_;
  std::size_t turn_ = 0;  // whose turn it is, so that none is starved by those before it
  std::vector<Subscription> listening_;
};

}  // namespace gpuyard::api
