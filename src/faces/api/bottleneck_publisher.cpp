#include "faces/api/bottleneck_publisher.h"

#include <utility>

#include "base/json_writer.h"
#include "faces/api/event_hub.h"
#include "faces/protocol/events.h"

namespace gpuyard::api {

// The first cause of a GPU is not published: the first resync has it.
void BottleneckPublisher::on_snapshot(const Snapshot& snapshot) {
  std::map<DeviceId, LastPublished> published;
  for (const DeviceState& device : snapshot.devices) {
    if (!device.bottleneck) continue;
    const LastPublished now{device.bottleneck->cause, snapshot.taken};
    const auto before = last_published_.find(device.info.id);
    const bool first = before == last_published_.end();
    const bool same = !first && before->second.cause == now.cause;
    const bool too_soon = !first && now.at - before->second.at < kMinPublishInterval;
    published[device.info.id] = first || (!same && !too_soon) ? now : before->second;
    if (first || same || too_soon) continue;
    const protocol::BottleneckChange change{to_rfc3339(snapshot.wall), device.info.id,
                                            device.info.index, *device.bottleneck};
    events_.publish(protocol::kBottleneckEvent, json::to_json(change), device.info.id);
  }
  last_published_ = std::move(published);
}

}  // namespace gpuyard::api
