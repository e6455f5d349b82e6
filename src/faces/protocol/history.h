// The REST API's request and answer for the history of one metric of one GPU. Field names are
// contract.
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
    {"points", "No more points than this, 1 to 20000; the step follows. 1000 if left out."},
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

// A line for each point; a null is an empty field.
inline constexpr const char* kHistoryCsvHeader =
    "index,uuid,metric,element,time,t_ms,min,mean,max\n";
std::string csv_of(const History&);

}  // namespace gpuyard::protocol

namespace gpuyard::json {

template <OneOf<protocol::History, protocol::HistorySummary, protocol::HistoryPoint> T>
inline constexpr bool has_schema<T> = true;

}  // namespace gpuyard::json
