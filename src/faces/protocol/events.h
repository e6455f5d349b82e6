// What GET /api/gpu/events streams: the names of its events and what their data holds. Field names
// are contract: they may be added to, not changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/event.h"
#include "protocol/resources.h"

namespace gpuyard::protocol {

// Something happened to a GPU or to the driver: GpuEvent. It has an id and is never left out.
inline constexpr std::string_view kDeviceEvent = "device";
// A change that somebody asked for is over: Operation. It has an id and is never left out.
inline constexpr std::string_view kOperationEvent = "operation";
// A lease is asked for, granted, let go, over: Lease as anybody may see it (leases.h, kLeaseEvent).
// It has an id and is never left out. And every five seconds Load (kLoadEvent), without one.
// A new snapshot: SummarySample or FullSample. It has no id; a slow listener misses some.
inline constexpr std::string_view kSnapshotEvent = "snapshot";
// Forget what you know, here is all of it: SummaryResync or FullResync. Has the id to go on from.
inline constexpr std::string_view kResyncEvent = "resync";

// How much of each snapshot a listener wants.
enum class SampleDetail : std::uint8_t { none, summary, full };
BOOST_DESCRIBE_ENUM(SampleDetail, none, summary, full)

struct EventsRequest {
  std::optional<SampleDetail> samples;
  std::optional<std::string> gpus;
  std::optional<std::string> since;
  std::optional<bool> follow;
  std::optional<std::string> last_event_id;
};
BOOST_DESCRIBE_STRUCT(EventsRequest, (), (samples, gpus, since, follow, last_event_id))

// In place of an id: from the oldest event that is still known.
inline constexpr std::string_view kOldest = "oldest";

struct GpuEvent {
  std::string at;
  std::optional<std::string> device;
  std::optional<std::uint32_t> index;
  std::string kind;
  gpuyard::Severity severity = gpuyard::Severity::note;
  std::optional<std::uint32_t> xid;
  std::string text;
};
BOOST_DESCRIBE_STRUCT(GpuEvent, (), (at, device, index, kind, severity, xid, text))

struct GpuSummary {
  std::uint32_t index = 0;
  std::string uuid;
  DeviceCondition condition = DeviceCondition::responsive;
  std::optional<gpuyard::Health> health;
  std::optional<std::int64_t> utilization_gpu_percent;
  std::optional<std::int64_t> temperature_core_c;
  std::optional<double> power_draw_w;
  std::optional<std::int64_t> clock_sm_mhz;
  std::optional<std::int64_t> memory_used_bytes;
  std::optional<std::int64_t> memory_total_bytes;
};
BOOST_DESCRIBE_STRUCT(GpuSummary, (),
                      (index, uuid, condition, health, utilization_gpu_percent, temperature_core_c,
                       power_draw_w, clock_sm_mhz, memory_used_bytes, memory_total_bytes))

struct SnapshotSummary {
  int schema = kSchemaVersion;
  bool simulated = false;
  std::uint64_t generation = 0;
  std::string taken_at;
  bool driver_initialised = false;
  std::optional<std::string> driver_error;
  std::vector<GpuSummary> devices;
};
BOOST_DESCRIBE_STRUCT(SnapshotSummary, (),
                      (schema, simulated, generation, taken_at, driver_initialised, driver_error,
                       devices))

struct SummarySample {
  std::uint64_t skipped = 0;
  SnapshotSummary snapshot;
};
BOOST_DESCRIBE_STRUCT(SummarySample, (), (skipped, snapshot))

struct FullSample {
  std::uint64_t skipped = 0;
  Snapshot snapshot;
};
BOOST_DESCRIBE_STRUCT(FullSample, (), (skipped, snapshot))

enum class ResyncReason : std::uint8_t {
  new_listener,  // it named no event to go on from
  unknown_id,    // of another daemon, which may have ended since; or of none
  too_old,       // events after it are forgotten
};
BOOST_DESCRIBE_ENUM(ResyncReason, new_listener, unknown_id, too_old)

struct SummaryResync {
  ResyncReason reason = ResyncReason::new_listener;
  SnapshotSummary snapshot;
};
BOOST_DESCRIBE_STRUCT(SummaryResync, (), (reason, snapshot))

struct FullResync {
  ResyncReason reason = ResyncReason::new_listener;
  Snapshot snapshot;
};
BOOST_DESCRIBE_STRUCT(FullResync, (), (reason, snapshot))

SnapshotSummary summary_of(const gpuyard::Snapshot&);

// "<epoch>-<sequence>": an event's place among those of one daemon.
struct EventId {
  std::string epoch;
  std::uint64_t sequence = 0;

  std::string text() const { return epoch + "-" + std::to_string(sequence); }
};
std::optional<EventId> parse_event_id(std::string_view text);

}  // namespace gpuyard::protocol

namespace gpuyard::json {

template <>
inline constexpr std::string_view schema_name<protocol::GpuEvent> = "GpuEvent";
template <>
inline constexpr std::string_view schema_name<protocol::GpuSummary> = "GpuSummary";
template <>
inline constexpr std::string_view schema_name<protocol::SnapshotSummary> = "SnapshotSummary";

template <>
inline constexpr About about<&protocol::EventsRequest::samples>{
    "How much of each new snapshot to send: nothing, a summary of each GPU (the default), or all."};
template <>
inline constexpr About about<&protocol::EventsRequest::gpus>{
    "Only these GPUs: indexes, UUIDs or PCI addresses, with commas. What concerns no GPU comes "
    "anyway."};
template <>
inline constexpr About about<&protocol::EventsRequest::since>{
    "The id of the last event that was seen, for clients that cannot set the header field; "
    "\"oldest\": begin with the oldest that is still known."};
template <>
inline constexpr About about<&protocol::EventsRequest::follow>{
    "False: end when all that has happened is told."};
template <>
inline constexpr About about<&protocol::EventsRequest::last_event_id>{
    "The id of the last event that was seen: what followed it comes first. A browser sets it by "
    "itself when it comes back."};
template <>
inline constexpr About about<&protocol::GpuEvent::device>{
    "UUID of the GPU; null where it concerns the driver, or a GPU that is not known."};
template <>
inline constexpr About about<&protocol::GpuEvent::kind>{
    "What happened: a word such as xid, gpu_unresponsive, health_changed, driver_down."};
template <>
inline constexpr About about<&protocol::GpuEvent::severity>{
    "note: for the record; warn: somebody should look; stop: work on this GPU has failed or will."};
template <>
inline constexpr About about<&protocol::GpuEvent::xid>{
    "The driver's number for what went wrong; null where the event is no Xid."};
template <>
inline constexpr About about<&protocol::SummarySample::skipped>{
    "Snapshots since the one before that were left out because the listener was slow."};

}  // namespace gpuyard::json
