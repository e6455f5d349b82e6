// The REST API's requests and answers about the past: the history of metrics, the processes that
// were on GPUs, and why GPUs were slow. Field names are contract.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_shape.h"
#include "faces/protocol/resources.h"
#include "faces/protocol/route.h"
#include "gpu/device/catalog.h"

namespace gpuyard::protocol {

struct HistoryQuery {
  std::string id;
  std::string metric;
  std::optional<std::string> element;
  std::optional<std::string> since;
  std::optional<std::string> until;
  std::optional<std::string> step;
  std::optional<std::uint64_t> points;
  std::optional<TextFormat> format;
};
BOOST_DESCRIBE_STRUCT(HistoryQuery, (), (id, metric, element, since, until, step, points, format))
GPUYARD_ABOUT(
    HistoryQuery,
    {"id", "Index, UUID or PCI address of a GPU; for one no longer present, its UUID."},
    {"metric",
     "JSON key with or without its unit, nvidia-smi's name, or a short name: power_draw_w, "
     "power_draw, power.draw, power."},
    {"element",
     "Fan, link or error location, for metrics with several elements. Default: the first."},
    {"since",
     "How long ago (90s, 2h, 7d), a time such as 2026-01-31T12:00:00Z, or seconds since 1970. "
     "Default: 1h."},
    {"until", "End, as a time or how long ago. Default: now."},
    {"step", "Time span of each point: 10s, 5m, 1h. Excludes points."},
    {"points", "Maximum number of points, 1 to 20000; determines the step. Default: 1000.", 1,
     20'000},
    {"format", "json or csv. Default: by the Accept header."})

enum class HistoryResolution : std::uint8_t { reading, ten_seconds, minute };
BOOST_DESCRIBE_ENUM(HistoryResolution, reading, ten_seconds, minute)

struct HistoryPoint {
  std::int64_t t_ms = 0;
  std::optional<double> min;
  std::optional<double> mean;
  std::optional<double> max;
};
BOOST_DESCRIBE_STRUCT(HistoryPoint, (), (t_ms, min, mean, max))
GPUYARD_ABOUT(HistoryPoint,
              {"t_ms", "Start of the step, milliseconds since 1970 by the current clock."},
              {"min", "Lowest reading of the step; null: no readings from here on."},
              {"mean", "Mean of all readings of the step."},
              {"max", "Highest reading of the step."})

// Summarises all readings in the range, however many points they became.
struct HistorySummary {
  std::uint64_t readings = 0;
  std::optional<double> min;
  std::optional<double> mean;
  std::optional<double> max;
  std::optional<double> last;
};
BOOST_DESCRIBE_STRUCT(HistorySummary, (), (readings, min, mean, max, last))
GPUYARD_ABOUT(HistorySummary, {"last",
                               "The newest reading or, where single readings are no longer stored, "
                               "the mean of the newest step."})

struct History : AnswerHead {
  std::optional<std::uint32_t> index;
  std::string uuid;
  std::optional<std::string> name;
  std::string metric;
  std::optional<std::string> element;
  std::string unit;
  bool counter = false;
  HistoryResolution resolution = HistoryResolution::reading;
  std::int64_t step_ms = 0;
  std::string since;
  std::string until;
  std::string covers_since;
  std::optional<double> bound;
  HistorySummary summary;
  std::vector<std::string> notes;
  std::vector<HistoryPoint> points;
};
BOOST_DESCRIBE_STRUCT(History, (AnswerHead),
                      (index, uuid, name, metric, element, unit, counter, resolution, step_ms,
                       since, until, covers_since, bound, summary, notes, points))
GPUYARD_ABOUT(
    History, {"index", "NVML index of the GPU; null if no longer present."},
    {"metric", "JSON key, with the unit of the points."},
    {"unit", "Unit for display; may be empty."},
    {"counter", "A counter that only grows until the driver is reloaded; use differences of max."},
    {"resolution",
     "Resolution of the points: single readings are stored for an hour, ten-second means for a "
     "day, minute means for 30 days."},
    {"step_ms", "Length of a point's step; 0: each point is one reading."},
    {"covers_since", "No data of this resolution before this time."},
    {"bound",
     "Current upper bound of the metric, such as the power limit. Null: none, or unknown."},
    {"notes", "Remarks on the data: since when it exists, clock changes, a full disk."})

inline constexpr std::uint64_t kDefaultColumnPoints = 300;
inline constexpr std::uint64_t kMaxSeries = 1024;
inline constexpr std::uint64_t kMaxColumnPoints = 250'000;  // of all series together

inline constexpr std::string_view kDefaultMetrics = "util,power,temp,memory";

struct HistoryColumnsQuery {
  std::optional<std::string> metrics;
  std::optional<std::string> gpus;
  std::optional<std::string> since;
  std::optional<std::string> until;
  std::optional<std::uint64_t> points;
};
BOOST_DESCRIBE_STRUCT(HistoryColumnsQuery, (), (metrics, gpus, since, until, points))
GPUYARD_ABOUT(
    HistoryColumnsQuery,
    {"metrics",
     "Comma-separated metrics, as in the history of one GPU. Default: util,power,temp,memory."},
    {"gpus", "Only these GPUs: comma-separated indexes, UUIDs or PCI addresses."},
    {"since",
     "How long ago (90s, 2h, 7d), a time such as 2026-01-31T12:00:00Z, or seconds since 1970. "
     "Default: 15m."},
    {"until", "End, as a time or how long ago. Default: now."},
    {"points", "Maximum number of steps, 1 to 20000. Default: 300.", 1, 20'000})

struct HistoryColumn {
  std::optional<std::uint32_t> index;
  std::string uuid;
  std::string metric;
  std::string unit;
  bool counter = false;
  HistoryResolution resolution = HistoryResolution::reading;
  std::int64_t first_ms = 0;
  std::int64_t step_ms = 0;
  std::optional<double> bound;
  std::vector<std::optional<double>> min;
  std::vector<std::optional<double>> mean;
  std::vector<std::optional<double>> max;
};
BOOST_DESCRIBE_STRUCT(HistoryColumn, (),
                      (index, uuid, metric, unit, counter, resolution, first_ms, step_ms, bound,
                       min, mean, max))
GPUYARD_ABOUT(HistoryColumn, {"first_ms", "Start of the first step, milliseconds since 1970."},
              {"step_ms",
               "Time from one point to the next; longer than requested where data is stored at a "
               "lower resolution."},
              {"min",
               "Lowest reading of each step, from the first step with a reading to the last; null: "
               "no reading. Rounded to four digits, except for counters."},
              {"max", "Highest reading of each step."})

struct HistoryColumns : AnswerHead {
  std::int64_t since_ms = 0;
  std::int64_t until_ms = 0;
  std::int64_t step_ms = 0;
  std::vector<HistoryColumn> series;
  std::vector<std::string> notes;
};
BOOST_DESCRIBE_STRUCT(HistoryColumns, (AnswerHead), (since_ms, until_ms, step_ms, series, notes))
GPUYARD_ABOUT(
    HistoryColumns,
    {"until_ms",
     "End of the last complete step; the response stays the same until the next one ends."},
    {"step_ms", "A round duration that gives no more steps than points."})

// A line for each point; a null is an empty field.
inline constexpr const char* kHistoryCsvHeader =
    "index,uuid,metric,element,time,t_ms,min,mean,max\n";
std::string csv_of(const History&);

inline constexpr std::uint64_t kDefaultProcessSpans = 1000;
inline constexpr std::uint64_t kMaxProcessSpans = 10'000;

struct ProcessSpansQuery {
  std::optional<std::string> gpus;
  std::optional<std::string> since;
  std::optional<std::string> until;
  std::optional<std::uint64_t> limit;
};
BOOST_DESCRIBE_STRUCT(ProcessSpansQuery, (), (gpus, since, until, limit))
GPUYARD_ABOUT(ProcessSpansQuery,
              {"gpus", "Only these GPUs: comma-separated indexes, UUIDs or PCI addresses."},
              {"since",
               "How long ago (90s, 2h, 7d), a time such as 2026-01-31T12:00:00Z, or seconds since "
               "1970. Default: 1h. Lists processes present at any time since then."},
              {"until", "End, as a time or how long ago. Default: now."},
              {"limit", "Maximum number of entries, 1 to 10000. Default: 1000.", 1, 10'000})

struct ProcessSpan {
  std::optional<std::uint32_t> index;
  std::string uuid;
  std::uint32_t pid = 0;
  std::optional<std::string> started_at;
  std::optional<std::string> user;
  std::optional<std::uint32_t> uid;
  std::optional<std::string> command;
  std::optional<std::string> lease;
  std::optional<std::int64_t> peak_memory_bytes;
  std::string first_seen;
  std::string last_seen;
  bool there = false;
};
BOOST_DESCRIBE_STRUCT(ProcessSpan, (),
                      (index, uuid, pid, started_at, user, uid, command, lease, peak_memory_bytes,
                       first_seen, last_seen, there))
GPUYARD_ABOUT(ProcessSpan, {"index", "NVML index of the GPU; null if no longer present."},
              {"started_at", "When the process started; null if it ended before it was inspected."},
              {"lease", "Lease of the GPU when the process was first seen; null: none."},
              {"peak_memory_bytes",
               "Highest device memory in any sample; null if not reported by the driver."},
              {"last_seen", "When it was last in the driver's list."},
              {"there", "True if it is in the newest list."})

struct ProcessSpans {
  int schema = kSchemaVersion;
  std::string since;
  std::string until;
  bool complete = true;
  std::vector<ProcessSpan> processes;
  std::vector<std::string> notes;
};
BOOST_DESCRIBE_STRUCT(ProcessSpans, (), (schema, since, until, complete, processes, notes))
GPUYARD_ABOUT(ProcessSpans, {"complete", "False if there are more entries than the limit."},
              {"notes", "Remarks on the data, such as a disk that cannot be read."})

inline constexpr std::uint64_t kDefaultBottleneckSpans = 1000;

struct BottlenecksQuery {
  std::optional<std::string> gpus;
  std::optional<std::string> since;
  std::optional<std::string> until;
  std::optional<std::uint64_t> limit;
};
BOOST_DESCRIBE_STRUCT(BottlenecksQuery, (), (gpus, since, until, limit))
GPUYARD_ABOUT(BottlenecksQuery,
              {"gpus", "Only these GPUs: comma-separated indexes, UUIDs or PCI addresses."},
              {"since",
               "How long ago (90s, 2h, 7d), a time such as 2026-01-31T12:00:00Z, or seconds since "
               "1970. Default: 1h. Lists spells active at any time since then."},
              {"until", "End, as a time or how long ago. Default: now."},
              {"limit",
               "Maximum number of spells, 1 to 10000. Default: 1000. The shares cover all spells.",
               1, 10'000})

struct BottleneckSpan {
  gpuyard::Bottleneck bottleneck;
  std::string began;
  std::string ended;
  bool on = false;
};
BOOST_DESCRIBE_STRUCT(BottleneckSpan, (), (bottleneck, began, ended, on))
GPUYARD_ABOUT(
    BottleneckSpan, {"bottleneck", "The bottleneck at its peak or, for a state, at its end."},
    {"ended", "End of the spell, or the last time it was known: now, or when a daemon was killed."},
    {"on", "True if it continues now."})

struct CauseShare {
  BottleneckCause cause = BottleneckCause::none;
  double seconds = 0;
  double percent = 0;
};
BOOST_DESCRIBE_STRUCT(CauseShare, (), (cause, seconds, percent))
GPUYARD_ABOUT(CauseShare, {"percent", "Share of the covered time in the range."})

struct GpuBottlenecks {
  std::optional<std::uint32_t> index;
  std::string uuid;
  double known_seconds = 0;
  std::vector<CauseShare> shares;
  std::vector<BottleneckSpan> spells;
};
BOOST_DESCRIBE_STRUCT(GpuBottlenecks, (), (index, uuid, known_seconds, shares, spells))
GPUYARD_ABOUT(GpuBottlenecks, {"index", "NVML index of the GPU; null if no longer present."},
              {"known_seconds",
               "Seconds of the range with data. In the rest no daemon ran or the cause was "
               "not_known, which does not mean that there was no bottleneck."},
              {"shares", "Duration of each cause, longest first; empty: no bottleneck."},
              {"spells", "Newest first."})

struct Bottlenecks : AnswerHead {
  std::string since;
  std::string until;
  double seconds = 0;
  bool complete = true;
  std::vector<GpuBottlenecks> gpus;
};
BOOST_DESCRIBE_STRUCT(Bottlenecks, (AnswerHead), (since, until, seconds, complete, gpus))
GPUYARD_ABOUT(Bottlenecks, {"seconds", "Length of the range."},
              {"complete", "False if there are more spells than the limit."})

}  // namespace gpuyard::protocol

namespace gpuyard::json {

GPUYARD_SCHEMA(protocol::HistoryPoint);
GPUYARD_SCHEMA(protocol::HistorySummary);
GPUYARD_SCHEMA(protocol::History);
GPUYARD_SCHEMA(protocol::HistoryColumn);
GPUYARD_SCHEMA(protocol::HistoryColumns);
GPUYARD_SCHEMA(protocol::ProcessSpan);
GPUYARD_SCHEMA(protocol::ProcessSpans);
GPUYARD_SCHEMA(protocol::BottleneckSpan);
GPUYARD_SCHEMA(protocol::CauseShare);
GPUYARD_SCHEMA(protocol::GpuBottlenecks);
GPUYARD_SCHEMA(protocol::Bottlenecks);

}  // namespace gpuyard::json
