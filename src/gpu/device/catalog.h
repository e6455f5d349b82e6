// The metric catalog: one row for each measurable thing, with its names at every edge of the
// program, and one row for each probe. JSON keys, Prometheus families, table columns and their
// documentation derive from these two tables; adding a metric is adding a row and a probe's line.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "gpu/device/metric.h"

namespace gpuyard {

// The native unit of a row's int64 values. Outputs show native / divisor, with the unit in the
// name: 312500 mW is "power_draw_w": 312.5 and ..._power_watts 312.5.
enum class Unit {
  none,
  percent,
  millipercent,
  celsius,
  bytes,
  bytes_per_second,
  milliwatts,
  millijoules,
  megahertz,
  nanoseconds,
};

struct UnitInfo {
  std::string_view json_suffix;
  std::int64_t json_divisor;
  double prometheus_factor;  // native to Prometheus's base unit
  std::string_view symbol;   // for people, after json_divisor
  std::string_view dcgm;     // the unit of such a row in DCGM 4.8
  std::int64_t dcgm_divisor;
};
const UnitInfo& unit_info(Unit);

enum class MetricKind {
  gauge,
  counter,
  text,
  state,  // one of the row's words
  flags,  // any of the row's words: one bit each
};

// The name of a number of a `state` row, or of a bit of a `flags` row. The last word of a `flags`
// row stands for all bits that have no word of their own.
struct MetricWord {
  std::int64_t value;
  std::string_view text;
};

// The object that a reading describes.
enum class MetricSubject {
  device_identity,  // known at enumeration, part of DeviceInfo
  device,           // measured by a probe
  driver,           // the same for all GPUs of the node
};

// The dimension of a row that exists more than once on a GPU; Reading::index is the number in it.
// If all of them are missing for one reason, the sample has one reading, with index 0.
enum class Dimension {
  none,
  fan,
  link,      // NVLink
  location,  // of a memory error, as nvmlMemoryLocation_t counts them
};
inline constexpr std::uint16_t kMaxFans = 16;
inline constexpr std::uint16_t kMaxLinks = 36;
// Returns the name of the dimension in outputs: "fan".
std::string_view label_of(Dimension);
// Returns "0", or the name of a location: "l1_cache".
std::string element_of(Dimension, std::uint16_t index);
// Returns the bound below which all indexes are.
std::uint16_t extent_of(Dimension);

// The values that a row can have, in its native unit. A value outside of them is missing, because
// the driver's answer cannot be true. They leave room for boards that are not built yet.
struct Bounds {
  std::int64_t least;
  std::int64_t most;

  constexpr bool contains(std::int64_t value) const { return least <= value && value <= most; }
};

// No board draws more than this.
inline constexpr std::int64_t kMaxBoardWatts = 10'000;

struct MetricRow {
  Metric metric;
  std::string_view key;  // the JSON key without its unit
  Unit unit;
  MetricKind kind;
  MetricSubject subject;
  std::optional<Probe> probe;  // the probe that reads it; only for MetricSubject::device
  Dimension dimension;
  std::string_view prometheus;  // without the prefix; empty: not a series of its own
  std::string_view nvidia_smi;  // name in `nvidia-smi --query-gpu`
  std::string_view dcgm;        // field identifier in DCGM 4.8
  std::string_view help;
  std::span<const MetricWord> words = {};
  Bounds bounds = {INT64_MIN, INT64_MAX};  // text and flags have none
};

std::span<const MetricRow> catalog();
const MetricRow& row_of(Metric);

// Returns the key with its unit: "power_draw_w".
const std::string& json_key(const MetricRow&);

// The rhythm in which a probe runs without a request.
enum class Tier {
  fast,
  slow,
  rare,  // values that change only with a setting, a failure or a new driver
};
inline constexpr Duration kFastInterval = std::chrono::seconds(1);
inline constexpr Duration kSlowInterval = std::chrono::seconds(5);
inline constexpr Duration kRareInterval = std::chrono::seconds(60);

struct ProbeRow {
  Probe probe;
  std::string_view name;
  Tier tier;
  std::span<const Metric> fills;
};

std::span<const ProbeRow> probes();
const ProbeRow& row_of(Probe);
ProbeSet probes_of(Tier);

// Returns the probes that together fill these metrics.
ProbeSet probes_for(std::span<const Metric>);

}  // namespace gpuyard
