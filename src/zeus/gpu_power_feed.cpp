#include "zeus/gpu_power_feed.h"

#include <utility>

#include "base/json_writer.h"
#include "http/event_stream.h"

namespace gpuyard::zeus {
namespace {

struct GpuPower {
  std::int64_t timestamp_ms = 0;
  std::uint32_t gpu_id = 0;
  std::int64_t power_mw = 0;
};
BOOST_DESCRIBE_STRUCT(GpuPower, (), (timestamp_ms, gpu_id, power_mw))

}  // namespace

// A client takes a power that is null for a broken event: what is not known is not told.
GpuPowerFeed::GpuPowerFeed(Gpus& gpus, const std::vector<DeviceInfo>& wanted,
                           GpuPowerChunks& shared)
    : gpus_(gpus), shared_(shared) {
  for (const DeviceInfo& gpu : wanted) {
    const std::size_t place = waiting_.size();
    waiting_.push_back({gpu.index, std::nullopt});
    listening_.push_back(gpus.listen_power(gpu.id, kPeriod, [this, place](const Reading& reading) {
      if (reading.number() == nullptr) return;
      waiting_[place].reading = reading;
      more();
    }));
  }
}

http::Chunk GpuPowerFeed::next() {
  for (std::size_t tried = 0; tried < waiting_.size(); ++tried) {
    Waiting& one = waiting_[turn_];
    turn_ = (turn_ + 1) % waiting_.size();
    const auto reading = std::exchange(one.reading, std::nullopt);
    if (!reading) continue;
    return shared_[one.index].of(reading->taken, [&] {
      const auto newest = gpus_.latest();
      const auto when =
          newest->wall.time_since_epoch().count() - to_milliseconds(newest->taken - reading->taken);
      return http::event_chunk("", json::to_json(GpuPower{when, one.index, *reading->number()}));
    });
  }
  return {};
}

}  // namespace gpuyard::zeus
