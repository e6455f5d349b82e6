// Publishes an event when another cause holds a GPU back; of one GPU at most every
// kMinPublishInterval, so that a cause that comes and goes floods nobody. Thread: io.
#pragma once

#include <chrono>
#include <map>

#include "base/clock.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::api {

class EventHub;

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
