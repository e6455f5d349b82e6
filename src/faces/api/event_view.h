// What several listeners want to see alike - how much of each snapshot, of which GPUs - rendered
// once for all of them. Lives on the io thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/snapshot.h"
#include "http/feed.h"
#include "protocol/events.h"

namespace gpuyard::api {

class EventView {
 public:
  // So many names at most make sense: more than there can be GPUs.
  static constexpr std::size_t kMostNames = 256;
  // Each once, in order.
  static std::vector<std::string> names_in(std::string_view gpus);

  // `gpus`: names with commas; "" is all of them. A name that no GPU has yet may get one.
  // `book`: who the processes are; it outlives this.
  EventView(protocol::SampleDetail, std::string_view gpus, const ProcessBook* book = nullptr);

  bool wants_samples() const { return detail_ != protocol::SampleDetail::none; }
  // Whether an event about this GPU, or about none (""), is for these listeners.
  bool takes(const DeviceId&) const;
  // Which GPUs the names mean now. One that is gone keeps its name.
  void learn(const Snapshot&);

  // The snapshot that is the `number`th, after `skipped` that the listener did not get.
  http::Chunk sample(const Snapshot&, std::uint64_t number, std::uint64_t skipped);
  // All there is to know, with the id from which to go on.
  http::Chunk resync(const Snapshot&, std::uint64_t number, protocol::ResyncReason,
                     const protocol::EventId&);

 private:
  struct Wanted {
    std::string name;
    DeviceId id;  // empty: not there yet
  };

  const std::string& body_of(const Snapshot&, std::uint64_t number);
  std::string render(const Snapshot&) const;

  protocol::SampleDetail detail_;
  const ProcessBook* book_;
  std::vector<Wanted> wanted_;  // empty: all
  std::uint64_t rendered_ = UINT64_MAX;
  std::string body_;
  http::Chunk sample_;  // of body_, for who skipped none; rendered when first asked for
};

}  // namespace gpuyard::api
