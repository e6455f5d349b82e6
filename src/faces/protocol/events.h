// The stream of GET /api/gpu/events: the names of its events and the fields of their data. Field
// names are contract: they may be added to, not changed.
//
// Snapshots in columns: the fewest bytes for listeners that draw. A column has a number for each
// GPU, in the order of the resync's devices; null: not known now.
//
// The stream of GET /api/gpu/stream/power: the power of GPUs, many times a second. Field names are
// contract: they may be added to, not changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_shape.h"
#include "base/record.h"
#include "faces/protocol/resources.h"
#include "gpu/device/event.h"

namespace gpuyard::protocol {

// An event of a GPU or of the driver: GpuEvent. It has an id and is never left out.
inline constexpr std::string_view kDeviceEvent = "device";
// A requested change is over: Operation. It has an id and is never left out.
inline constexpr std::string_view kOperationEvent = "operation";
// A lease is claimed, granted, released or over: Lease as anybody may see it (leases.h,
// kLeaseEvent). It has an id and is never left out. Load (kLoadEvent) comes every five seconds,
// without an id.
// A new snapshot: SummarySample or FullSample. It has no id; a slow listener misses some.
inline constexpr std::string_view kSnapshotEvent = "snapshot";
// A new snapshot as a row of numbers for each column. As above.
inline constexpr std::string_view kColumnsEvent = "columns";
// Another cause holds a GPU back: BottleneckChange. It has an id and is never left out.
inline constexpr std::string_view kBottleneckEvent = "bottleneck";
// The whole state, which replaces all that the listener knew: SummaryResync, FullResync or
// ColumnsResync. It has the id to continue from.
inline constexpr std::string_view kResyncEvent = "resync";

// The part of each snapshot that a listener wants.
enum class SampleDetail : std::uint8_t { none, summary, full, columns };
BOOST_DESCRIBE_ENUM(SampleDetail, none, summary, full, columns)

struct EventsRequest {
  std::optional<SampleDetail> samples;
  std::optional<std::string> gpus;
  std::optional<std::string> since;
  std::optional<bool> follow;
  std::optional<std::string> last_event_id;
};
BOOST_DESCRIBE_STRUCT(EventsRequest, (), (samples, gpus, since, follow, last_event_id))
GPUYARD_ABOUT(EventsRequest,
              {"samples",
               "Detail of snapshots: none, a summary of each GPU (default), everything, or "
               "columns: the numbers of a summary without repeating their names."},
              {"gpus",
               "Only these GPUs: comma-separated indexes, UUIDs or PCI addresses. Events that "
               "concern no GPU are always sent."},
              {"since",
               "ID of the last event received, for clients that cannot set the header; \"oldest\": "
               "start with the oldest available event."},
              {"follow", "False: end after sending all past events."},
              {"last_event_id",
               "ID of the last event received; later events are sent first. Browsers set it "
               "automatically when they reconnect."})

// In place of an id: start from the oldest event that is kept.
inline constexpr std::string_view kOldest = "oldest";

struct GpuEvent {
  std::string at;
  std::optional<std::string> device;
  std::optional<std::uint32_t> index;
  std::string kind;
  gpuyard::EventSeverity severity = gpuyard::EventSeverity::note;
  std::optional<std::uint32_t> xid;
  std::string text;
};
BOOST_DESCRIBE_STRUCT(GpuEvent, (), (at, device, index, kind, severity, xid, text))
GPUYARD_ABOUT(GpuEvent,
              {"device", "UUID of the GPU; null if it concerns the driver or an unknown GPU."},
              {"kind",
               "Kind of event, such as xid, gpu_unresponsive, health_changed or driver_down."},
              {"severity",
               "note: for the record; warn: needs attention; stop: work on this GPU has failed or "
               "will fail."},
              {"xid", "Xid number of the driver; null if the event is not an Xid."})

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
  std::optional<BottleneckCause> bottleneck;
  std::optional<std::string> bottleneck_brief;
};
BOOST_DESCRIBE_STRUCT(GpuSummary, (),
                      (index, uuid, condition, health, utilization_gpu_percent, temperature_core_c,
                       power_draw_w, clock_sm_mhz, memory_used_bytes, memory_total_bytes,
                       bottleneck, bottleneck_brief))

struct SnapshotSummary : AnswerHead {
  std::uint64_t generation = 0;
  std::string taken_at;
  bool driver_initialised = false;
  std::optional<std::string> driver_error;
  std::vector<GpuSummary> devices;
};
BOOST_DESCRIBE_STRUCT(SnapshotSummary, (AnswerHead),
                      (generation, taken_at, driver_initialised, driver_error, devices))

struct BottleneckChange {
  std::string at;
  std::string device;
  std::uint32_t index = 0;
  gpuyard::Bottleneck bottleneck;
};
BOOST_DESCRIBE_STRUCT(BottleneckChange, (), (at, device, index, bottleneck))
GPUYARD_ABOUT(BottleneckChange, {"device", "UUID of the GPU."})

struct SummarySample {
  std::uint64_t skipped = 0;
  SnapshotSummary snapshot;
};
BOOST_DESCRIBE_STRUCT(SummarySample, (), (skipped, snapshot))
GPUYARD_ABOUT(SummarySample,
              {"skipped", "Snapshots skipped since the previous one because the client was slow."})

struct FullSample {
  std::uint64_t skipped = 0;
  Snapshot snapshot;
};
BOOST_DESCRIBE_STRUCT(FullSample, (), (skipped, snapshot))

enum class ResyncReason : std::uint8_t {
  new_listener,  // the request named no event to continue from
  unknown_id,    // no event of this daemon, perhaps of an earlier one
  too_old,       // events after it are no longer kept
  gpus_changed,  // the columns have other GPUs, or other limits, from here on
};
BOOST_DESCRIBE_ENUM(ResyncReason, new_listener, unknown_id, too_old, gpus_changed)

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

// The columns that change rarely; sent only with each resync.
struct ColumnsDevice : GpuSummary {
  std::string name;
  std::string pci_address;
  std::optional<double> power_limit_w;
  std::optional<std::string> bottleneck_text;
  std::optional<std::string> bottleneck_advice;
};
BOOST_DESCRIBE_STRUCT(ColumnsDevice, (GpuSummary),
                      (name, pci_address, power_limit_w, bottleneck_text, bottleneck_advice))

struct ColumnsResync {
  int schema = kSchemaVersion;
  ResyncReason reason = ResyncReason::new_listener;
  bool simulated = false;
  std::int64_t t_ms = 0;
  bool driver_initialised = false;
  std::optional<std::string> driver_error;
  std::vector<std::string> columns;
  std::vector<ColumnsDevice> devices;
};
BOOST_DESCRIBE_STRUCT(ColumnsResync, (),
                      (schema, reason, simulated, t_ms, driver_initialised, driver_error, columns,
                       devices))
GPUYARD_ABOUT(ColumnsResync,
              {"columns", "Names of the columns of the `columns` events that follow."},
              {"devices", "The GPUs in column order, with their constant data."})

// The columns, in order, as ColumnsResync names them: whole numbers, watts and MiB rounded.
std::vector<std::string> column_names();
ColumnsResync columns_resync_of(const gpuyard::Snapshot&, ResyncReason);
// Returns {"t_ms":...,"v":[[...],...]} for these GPUs of the snapshot, by their place in it.
std::string columns_of(const gpuyard::Snapshot&, const std::vector<std::size_t>& gpus);
// Returns what a listener knows only from the resync, as text: it needs a new resync when the text
// differs.
std::string static_columns_of(const gpuyard::Snapshot&, const std::vector<std::size_t>& gpus);

SnapshotSummary summary_of(const gpuyard::Snapshot&);

// "<epoch>-<sequence>": the place of an event among those of one daemon.
struct EventId {
  std::string epoch;
  std::uint64_t sequence = 0;

  std::string text() const { return epoch + "-" + std::to_string(sequence); }
};
std::optional<EventId> parse_event_id(std::string_view text);

// The name of its events. They have no id: past power is not sent again.
inline constexpr std::string_view kPowerEvent = "power";

inline constexpr double kDefaultPowerHz = 20;
inline constexpr double kMinPowerHz = 1;
inline constexpr double kMaxPowerHz = 100;

struct PowerStreamRequest {
  std::optional<std::string> gpus;
  std::optional<double> hz;
};
BOOST_DESCRIBE_STRUCT(PowerStreamRequest, (), (gpus, hz))
GPUYARD_ABOUT(PowerStreamRequest,
              {"gpus", "Only these GPUs: comma-separated indexes, UUIDs or PCI addresses."},
              {"hz", "Readings per second and GPU, 1 to 100; default 20.", kMinPowerHz,
               kMaxPowerHz})

struct PowerSample {
  std::uint32_t index = 0;
  std::string uuid;
  std::int64_t t_ms = 0;
  std::optional<double> power_w;
  bool instant = false;
  std::optional<std::string> why;
  std::uint64_t skipped = 0;
};
BOOST_DESCRIBE_STRUCT(PowerSample, (), (index, uuid, t_ms, power_w, instant, why, skipped))
GPUYARD_ABOUT(PowerSample, {"t_ms", "When the driver was read, in milliseconds since 1970."},
              {"instant",
               "True: instantaneous. False: the driver's average, over one second on many GPUs."},
              {"why", "Why power_w is null."},
              {"skipped",
               "Readings of this GPU skipped since the previous one because the client was slow."})

}  // namespace gpuyard::protocol

namespace gpuyard::json {

GPUYARD_SCHEMA(protocol::GpuEvent);
GPUYARD_SCHEMA(protocol::GpuSummary);
GPUYARD_SCHEMA(protocol::SnapshotSummary);
GPUYARD_SCHEMA(protocol::BottleneckChange);
GPUYARD_SHAPE(protocol::SummarySample);
GPUYARD_SHAPE(protocol::FullSample);
GPUYARD_SHAPE(protocol::SummaryResync);
GPUYARD_SHAPE(protocol::FullResync);
GPUYARD_SCHEMA(protocol::ColumnsDevice);
GPUYARD_SCHEMA(protocol::ColumnsResync);
GPUYARD_SCHEMA(protocol::PowerSample);

}  // namespace gpuyard::json
