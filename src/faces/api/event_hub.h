// Who listens to GET /api/gpu/events, and what they get: events, which are numbered, kept for a
// while and never left out; snapshots and reports, of which a slow listener gets the newest. Knows
// no source of events. Lives on the io thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

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

}  // namespace gpuyard::api
