// Names of GPUs, separated by commas, as in the parameters of routes; and the events about the
// causes that hold GPUs back.
#pragma once

#include <map>

#include <string_view>
#include <vector>

#include "base/result.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::api {

class EventHub;

// Returns the GPUs that these names mean, each once; "" means all. Errc::not_found for a name that
// no GPU has, Errc::invalid for an empty name, Errc::unavailable without a driver.
Result<std::vector<DeviceInfo>> resolve_gpus(const Snapshot&, std::string_view names);

// Returns the ids of the named GPUs; here "all" means all, too.
Result<std::vector<DeviceId>> resolve_gpu_ids(const Snapshot&, std::string_view names);

// Publishes an event when another cause holds a GPU back; of one GPU at most every
// kMinPublishInterval, so that a cause that comes and goes floods nobody. Lives on the io thread.
class BottleneckPublisher {
 public:
  static constexpr Duration kMinPublishInterval = std::chrono::seconds(5);

  // `events` outlives this.
  explicit BottleneckPublisher(EventHub& events) : events_(events) {}

  void on_snapshot(const Snapshot&);

 private:
  struct LastPublished {
    BottleneckCause cause{};
    TimePoint at;
  };

  EventHub& events_;
  std::map<DeviceId, LastPublished> last_published_;
};

}  // namespace gpuyard::api
