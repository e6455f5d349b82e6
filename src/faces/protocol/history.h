// The REST API's requests and answers for what was: the history of metrics, the processes that were
// on GPUs, and why GPUs were slow. Field names are contract.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_shape.h"
#include "device/catalog.h"
#include "protocol/resources.h"
#include "protocol/route.h"

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
    HistoryQuery, {"id", "A GPU's index, UUID or PCI address; one that is gone has its UUID."},
    {"metric",
     "JSON key with or without its unit, nvidia-smi's name, or a short name: power_draw_w, "
     "power_draw, power.draw, power."},
    {"element",
     "Which fan, link or place of a metric that there are several of; the first if left out."},
    {"since",
     "A time before now (90s, 2h, 7d), a time like 2026-01-31T12:00:00Z, or seconds since 1970; 1h "
     "if left out."},
    {"until", "The same; now if left out."},
    {"step", "Length of time for each point: 10s, 5m, 1h. Excludes points."},
    {"points", "No more points than this, 1 to 20000; the step follows. 1000 if left out.", 1,
     20'000},
    {"format", "json or csv; without it Accept decides."})

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
              {"t_ms", "Begin of the step, milliseconds since 1970 by the clock as it is now."},
              {"min", "Least reading of the step; null: from here on there are no readings."},
              {"mean", "Mean of all readings of the step."},
              {"max", "Greatest reading of the step."})

// Summarises all readings in the range, however many points they became.
struct HistorySummary {
  std::uint64_t readings = 0;
  std::optional<double> min;
  std::optional<double> mean;
  std::optional<double> max;
  std::optional<double> last;
};
BOOST_DESCRIBE_STRUCT(HistorySummary, (), (readings, min, mean, max, last))
GPUYARD_ABOUT(
    HistorySummary,
    {"last",
     "The newest reading; where each reading is no longer kept, the mean of the newest step."})

struct History {
  int schema = kSchemaVersion;
  bool simulated = false;
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
BOOST_DESCRIBE_STRUCT(History, (),
                      (schema, simulated, index, uuid, name, metric, element, unit, counter,
                       resolution, step_ms, since, until, covers_since, bound, summary, notes,
                       points))
GPUYARD_ABOUT(
    History, {"index", "NVML index of the GPU; null for one that is gone."},
    {"metric", "JSON key, with the unit of the points."},
    {"unit", "The unit as people write it; may be empty."},
    {"counter",
     "It only grows, until the driver is loaded anew: differences of max are what is of interest."},
    {"resolution",
     "What the points are made of: each reading is kept for an hour, ten seconds for a day, "
     "minutes "
     "for 30 days."},
    {"step_ms", "Length of a point's step; 0: each point is one reading."},
    {"covers_since", "Nothing of this resolution is kept from before."},
    {"bound",
     "What the GPU says now that it cannot exceed, or should not: its power limit, say. Null: "
     "there "
     "is none, or it is not known."},
    {"notes",
     "What a reader should know: since when there is anything, a clock that was set, a disk that "
     "is "
     "full."})

// The history of several metrics of several GPUs in one answer, for who draws them.

inline constexpr std::uint64_t kDefaultColumnPoints = 300;
inline constexpr std::uint64_t kMostSeries = 1024;
inline constexpr std::uint64_t kMostColumnPoints = 250'000;  // of all series together

inline constexpr std::string_view kUsualMetrics = "util,power,temp,memory";

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
     "Metrics with commas, each as in a GPU's own history; util,power,temp,memory if left out."},
    {"gpus", "Only these GPUs: indexes, UUIDs or PCI addresses, with commas."},
    {"since",
     "A time before now (90s, 2h, 7d), a time like 2026-01-31T12:00:00Z, or seconds since "
     "1970; 15m if left out."},
    {"until", "The same; now if left out."},
    {"points", "So many steps at most, 1 to 20000; 300 if left out.", 1, 20'000})

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
GPUYARD_ABOUT(HistoryColumn, {"first_ms", "Begin of the first step, milliseconds since 1970."},
              {"step_ms",
               "From one point to the next; more than was asked for where it is kept coarser."},
              {"min",
               "Least reading of each step, from the first with a reading to the last; null: the "
               "step has none. Four digits, of a counter all."},
              {"max", "Greatest reading of each step."})

struct HistoryColumns {
  int schema = kSchemaVersion;
  bool simulated = false;
  std::int64_t since_ms = 0;
  std::int64_t until_ms = 0;
  std::int64_t step_ms = 0;
  std::vector<HistoryColumn> series;
  std::vector<std::string> notes;
};
BOOST_DESCRIBE_STRUCT(HistoryColumns, (),
                      (schema, simulated, since_ms, until_ms, step_ms, series, notes))
GPUYARD_ABOUT(HistoryColumns,
              {"until_ms", "The end of the last whole step: the same answer until the next ends."},
              {"step_ms", "A round length of time, of which the range has no more than points."})

// A line for each point; a null is an empty field.
inline constexpr const char* kHistoryCsvHeader =
    "index,uuid,metric,element,time,t_ms,min,mean,max\n";
std::string csv_of(const History&);

// The processes that were on GPUs, and when.

inline constexpr std::uint64_t kDefaultStays = 1000;
inline constexpr std::uint64_t kMostStays = 10'000;

struct StaysQuery {
  std::optional<std::string> gpus;
  std::optional<std::string> since;
  std::optional<std::string> until;
  std::optional<std::uint64_t> limit;
};
BOOST_DESCRIBE_STRUCT(StaysQuery, (), (gpus, since, until, limit))
GPUYARD_ABOUT(
    StaysQuery, {"gpus", "Only these GPUs: indexes, UUIDs or PCI addresses, with commas."},
    {"since",
     "A time before now (90s, 2h, 7d), a time like 2026-01-31T12:00:00Z, or seconds since "
     "1970; 1h if left out. A process that was there at any time since is listed."},
    {"until", "The same; now if left out."},
    {"limit", "So many at most, 1 to 10000; 1000 if left out.", 1, 10'000})

struct Stay {
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
BOOST_DESCRIBE_STRUCT(Stay, (),
                      (index, uuid, pid, started_at, user, uid, command, lease, peak_memory_bytes,
                       first_seen, last_seen, there))
GPUYARD_ABOUT(Stay, {"index", "NVML index of the GPU; null for one that is gone."},
              {"started_at",
               "When the process started; null where it ended before anybody looked."},
              {"lease",
               "The lease that had the GPU when the process was seen first; null for none."},
              {"peak_memory_bytes",
               "The most device memory that it had at any look; null if the driver does not tell."},
              {"last_seen", "When it was in the driver's list last."},
              {"there", "True: it was in the newest list."})

struct Stays {
  int schema = kSchemaVersion;
  std::string since;
  std::string until;
  bool complete = true;
  std::vector<Stay> processes;
  std::vector<std::string> notes;
};
BOOST_DESCRIBE_STRUCT(Stays, (), (schema, since, until, complete, processes, notes))
GPUYARD_ABOUT(Stays, {"complete", "False: there are more than the limit."},
              {"notes", "What a reader should know: a disk that cannot be read, say."})

// Why GPUs were slow, and when.

inline constexpr std::uint64_t kDefaultSpells = 1000;

struct BottlenecksQuery {
  std::optional<std::string> gpus;
  std::optional<std::string> since;
  std::optional<std::string> until;
  std::optional<std::uint64_t> limit;
};
BOOST_DESCRIBE_STRUCT(BottlenecksQuery, (), (gpus, since, until, limit))
GPUYARD_ABOUT(
    BottlenecksQuery, {"gpus", "Only these GPUs: indexes, UUIDs or PCI addresses, with commas."},
    {"since",
     "A time before now (90s, 2h, 7d), a time like 2026-01-31T12:00:00Z, or seconds since "
     "1970; 1h if left out. A spell that was on at any time since is listed."},
    {"until", "The same; now if left out."},
    {"limit", "So many spells at most, 1 to 10000; 1000 if left out. The shares are of all.", 1,
     10'000})

struct Spell {
  gpuyard::Bottleneck bottleneck;
  std::string began;
  std::string ended;
  bool on = false;
};
BOOST_DESCRIBE_STRUCT(Spell, (), (bottleneck, began, ended, on))
GPUYARD_ABOUT(Spell, {"bottleneck", "As it was at its worst; of a state, at its end."},
              {"ended",
               "Its end, or the last moment at which it is known: now, or when a daemon was "
               "killed."},
              {"on", "True: it is so now."})

struct CauseShare {
  BottleneckCause cause = BottleneckCause::none;
  double seconds = 0;
  double percent = 0;
};
BOOST_DESCRIBE_STRUCT(CauseShare, (), (cause, seconds, percent))
GPUYARD_ABOUT(CauseShare, {"percent", "Of the time of the range of which a cause is known."})

struct GpuBottlenecks {
  std::optional<std::uint32_t> index;
  std::string uuid;
  double known_seconds = 0;
  std::vector<CauseShare> shares;
  std::vector<Spell> spells;
};
BOOST_DESCRIBE_STRUCT(GpuBottlenecks, (), (index, uuid, known_seconds, shares, spells))
GPUYARD_ABOUT(GpuBottlenecks, {"index", "NVML index of the GPU; null for one that is gone."},
              {"known_seconds",
               "So much of the range is known. In the rest no daemon ran, or it could not tell: "
               "cause not_known. The GPU need not have been fine."},
              {"shares", "How long each cause lasted, the longest first; none: it was fine."},
              {"spells", "The newest first."})

struct Bottlenecks {
  int schema = kSchemaVersion;
  bool simulated = false;
  std::string since;
  std::string until;
  double seconds = 0;
  bool complete = true;
  std::vector<GpuBottlenecks> gpus;
};
BOOST_DESCRIBE_STRUCT(Bottlenecks, (), (schema, simulated, since, until, seconds, complete, gpus))
GPUYARD_ABOUT(Bottlenecks, {"seconds", "Length of the range."},
              {"complete", "False: there are more spells than the limit."})

}  // namespace gpuyard::protocol

namespace gpuyard::json {

template <
    OneOf<protocol::Spell, protocol::CauseShare, protocol::GpuBottlenecks, protocol::Bottlenecks,
          protocol::Stay, protocol::Stays, protocol::HistoryColumns, protocol::HistoryColumn,
          protocol::History, protocol::HistorySummary, protocol::HistoryPoint>
        T>
inline constexpr bool has_schema<T> = true;

}  // namespace gpuyard::json
