// The listeners of GET /api/gpu/events and their streams. Events are numbered, kept for a while and
// never left out; of snapshots and states a slow listener gets the newest. Knows no source of
// events. Thread: io.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "faces/protocol/events.h"
#include "gpu/device/snapshot.h"
#include "io/http/response_stream.h"

namespace gpuyard::api {

class EventHub {
 public:
  // The most events, and bytes of them, that are kept for listeners that reconnect. A listener that
  // missed more gets a resync.
  static constexpr std::size_t kMaxEvents = 4096;
  static constexpr std::size_t kMaxEventBytes = std::size_t{2} * 1024 * 1024;
  // The most events that stop work that are kept beyond that, for listeners that want the oldest: a
  // flood of others does not push them out.
  static constexpr std::size_t kMaxStopEvents = 256;

  // `epoch`: a word that no other daemon has; sequence numbers are valid only within it.
  // `directory`: identifies processes; it outlives the last listener.
  EventHub(std::string epoch, std::shared_ptr<const Snapshot> known,
           const ProcessDirectory* directory = nullptr);
  ~EventHub();
  EventHub(const EventHub&) = delete;
  EventHub& operator=(const EventHub&) = delete;

  // Publishes an event with this name and this JSON as data, about this GPU or about none.
  void publish(std::string_view name, std::string_view json, const DeviceId& device = {},
               EventSeverity severity = EventSeverity::note);
  // Publishes a state as of now under this name: without an id, and only to listeners that want
  // snapshots.
  void publish_state(std::string_view name, std::string_view json);
  // Sets the newest snapshot. REQUIRES: called before its events are published.
  void set_snapshot(std::shared_ptr<const Snapshot>);

  // Returns the stream of one listener, which may outlive the hub. It begins after the event that
  // the request names, or with a resync.
  std::shared_ptr<http::ResponseStream> open_stream(const protocol::EventsRequest&);
  std::size_t listeners() const;

 private:
  class Listener;
  struct State;
  std::shared_ptr<State> state_;
};

// The part of each snapshot (detail and GPUs) that several listeners want alike, rendered once for
// all of them.
class EventView {
 public:
  // The most names in one list: more than there can be GPUs.
  static constexpr std::size_t kMaxNames = 256;
  // Returns each name once, sorted.
  static std::vector<std::string> parse_names(std::string_view gpus);

  // `gpus`: names with commas; "" means all. A name that no GPU has yet may match one later.
  // `directory`: identifies processes; it outlives this.
  EventView(protocol::SampleDetail, std::string_view gpus,
            const ProcessDirectory* directory = nullptr);

  bool needs_samples() const { return detail_ != protocol::SampleDetail::none; }
  // Returns whether states are wanted: they have more bytes than columns, and changes have events.
  bool needs_states() const { return needs_samples() && !is_columnar(); }
  // Returns whether an event about this GPU, or about none (""), is for these listeners.
  bool matches(const DeviceId&) const;
  // Resolves the names to GPUs as of this snapshot. A GPU that is gone keeps its name.
  void resolve_names(const Snapshot&);

  // Returns the `number`th snapshot as an event, after `skipped` that the listener missed.
  http::Chunk sample(const Snapshot&, std::uint64_t number, std::uint64_t skipped);
  // Grows when what only a resync contains has changed; 0 for a view whose samples contain all.
  std::uint64_t static_revision() const { return static_revision_; }
  // Returns the whole state, with the id of the event to continue from.
  http::Chunk resync(const Snapshot&, std::uint64_t number, protocol::ResyncReason,
                     const protocol::EventId&);

 private:
  struct NamedGpu {
    std::string name;
    DeviceId id;  // empty: not there yet
  };

  const std::string& body_of(const Snapshot&, std::uint64_t number);
  std::string render(const Snapshot&) const;
  std::vector<std::size_t> matching_devices(const Snapshot&) const;
  bool is_columnar() const { return detail_ == protocol::SampleDetail::columns; }

  protocol::SampleDetail detail_;
  const ProcessDirectory* processes_;
  std::vector<NamedGpu> gpus_;  // empty: all
  std::uint64_t rendered_number_ = UINT64_MAX;
  std::string body_;
  std::uint64_t static_revision_ = 0;
  std::string static_columns_;  // with the newest resync of columns
  http::Chunk sample_;          // body_ for listeners that skipped none; rendered on first use
};

}  // namespace gpuyard::api
