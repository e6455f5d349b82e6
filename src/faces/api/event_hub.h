// Who listens to GET /api/gpu/events, and what they get: events, which are numbered, kept for a
// while and never left out; snapshots and reports, of which a slow listener gets the newest. Knows
// no source of events. Lives on the io thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/snapshot.h"
#include "http/feed.h"
#include "protocol/events.h"

namespace gpuyard::api {

class EventHub {
 public:
  // What is kept for listeners that come back; a shorter one gets a resync.
  static constexpr std::size_t kKept = 4096;
  static constexpr std::size_t kKeptBytes = std::size_t{2} * 1024 * 1024;

  // `epoch`: a word that no other daemon has; a sequence number means something only with it.
  // `book`: who the processes are; it lives as long as anybody listens.
  EventHub(std::string epoch, std::shared_ptr<const Snapshot> known,
           const ProcessBook* book = nullptr);
  ~EventHub();
  EventHub(const EventHub&) = delete;
  EventHub& operator=(const EventHub&) = delete;

  // An event of this name with this JSON as data, about this GPU or about none.
  void publish(std::string_view name, std::string_view json, const DeviceId& device = {});
  // How something is at this moment, under this name: without an id, and for those who want
  // snapshots.
  void report(std::string_view name, std::string_view json);
  // The newest snapshot. To be told before the events that it gives rise to.
  void show(std::shared_ptr<const Snapshot>);

  // The stream of one listener, which may outlive the hub. Begins after the event that the request
  // names, or with a resync.
  std::shared_ptr<http::Feed> listen(const protocol::EventsRequest&);
  std::size_t listeners() const;

 private:
  class Listener;
  struct State;
  std::shared_ptr<State> state_;
};

// What several listeners want to see alike - how much of each snapshot, of which GPUs - rendered
// once for all of them. Lives on the io thread.

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
