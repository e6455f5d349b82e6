// The tables of rows and probes, from metrics.def.
#include "gpu/device/catalog.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace gpuyard {
namespace {

// The source of a metric: a probe, or facts already known of a GPU or of the driver.
struct Source {
  constexpr Source(Probe fills) : probe(fills) {}  // NOLINT(google-explicit-constructor)
  constexpr explicit Source(MetricSubject known) : subject(known) {}

  MetricSubject subject = MetricSubject::device;
  std::optional<Probe> probe = {};
};
constexpr Source kIdentity(MetricSubject::device_identity);
constexpr Source kDriver(MetricSubject::driver);

constexpr std::array kEnabledWords = {MetricWord{0, "disabled"}, MetricWord{1, "enabled"}};
constexpr std::array kYesWords = {MetricWord{0, "no"}, MetricWord{1, "yes"}};
// nvmlComputeMode_t; 1 is no longer supported.
constexpr std::array kComputeWords = {MetricWord{0, "default"}, MetricWord{1, "exclusive_thread"},
                                      MetricWord{2, "prohibited"},
                                      MetricWord{3, "exclusive_process"}};
// nvmlClocksEventReasons: one bit each. `other` is the driver's own "some other reason" (bit 63),
// and every bit that is newer than this table.
constexpr std::array kThrottleWords = {MetricWord{0x1, "idle"},
                                       MetricWord{0x2, "app_clocks"},
                                       MetricWord{0x4, "sw_power_cap"},
                                       MetricWord{0x8, "hw_slowdown"},
                                       MetricWord{0x10, "sync_boost"},
                                       MetricWord{0x20, "sw_thermal"},
                                       MetricWord{0x40, "hw_thermal"},
                                       MetricWord{0x80, "hw_power_brake"},
                                       MetricWord{0x100, "display_clocks"},
                                       MetricWord{~std::int64_t{0x1FF}, "other"}};

// Returns the bounds of a row that is a plain number of its unit.
constexpr Bounds bounds_of(Unit unit, MetricKind kind) {
  constexpr std::int64_t kYear = std::int64_t{365} * 24 * 3600;
  constexpr std::int64_t kMaxMilliwatts = kMaxBoardWatts * 1000;
  const bool counter = kind == MetricKind::counter;
  switch (unit) {
    case Unit::none:
      return {0, counter ? 1'000'000'000'000 : 1'000'000};
    case Unit::percent:
      return {0, 100};
    case Unit::millipercent:
      return {0, 100'000};
    case Unit::celsius:
      return {-200, 200};  // from cooling with liquid nitrogen to where solder melts
    case Unit::bytes:
      // Traffic of NVLinks passes 2^53 bytes within hours. The board's memory is at most 1 PiB.
      return {0, counter ? 9'000'000'000'000'000'000 : std::int64_t{1} << 50U};
    case Unit::bytes_per_second:
      return {0, 1'000'000'000'000};  // twice the rate of PCIe 8 with 16 lanes
    case Unit::milliwatts:
      return {0, kMaxMilliwatts};
    case Unit::millijoules:
      return {0, kMaxMilliwatts * 20 * kYear};
    case Unit::megahertz:
      return {0, 100'000};
    case Unit::nanoseconds:
      return {0, 100 * kYear * 1'000'000'000};
  }
  return {0, 0};
}

constexpr Bounds bounds_of(Metric metric, Unit unit, MetricKind kind) {
  switch (metric) {
    case Metric::performance_state:
      return {0, 15};  // 32 means unknown
    case Metric::fan_speed:
      return {0, 500};  // an overdriven fan says more than 100
    case Metric::pcie_generation:
    case Metric::pcie_generation_max:
      return {0, 16};
    case Metric::pcie_width:
    case Metric::pcie_width_max:
      return {0, 64};
    default:
      break;
  }
  if (kind == MetricKind::text || kind == MetricKind::flags) return {INT64_MIN, INT64_MAX};
  if (kind == MetricKind::state) return {0, 255};  // a state without a word is newer than its table
  return bounds_of(unit, kind);
}

constexpr MetricRow row(Metric metric, std::string_view key, Source source, Unit unit,
                        MetricKind kind, Dimension dimension, std::string_view prometheus,
                        std::string_view nvidia_smi, std::string_view dcgm, std::string_view help,
                        std::span<const MetricWord> words = {}) {
  return {metric,
          key,
          unit,
          kind,
          source.subject,
          source.probe,
          dimension,
          prometheus,
          nvidia_smi,
          dcgm,
          help,
          words,
          bounds_of(metric, unit, kind)};
}

constexpr std::array kCatalog = {
#define GPUYARD_METRIC(name, source, unit, kind, dimension, ...) \
  row(Metric::name, #name, source, Unit::unit, MetricKind::kind, Dimension::dimension, __VA_ARGS__),
#include "gpu/device/metrics.def"
};

constexpr bool has_bounds(const MetricRow& row) {
  return row.bounds.least > INT64_MIN && row.bounds.most < INT64_MAX &&
         row.bounds.least < row.bounds.most;
}
static_assert(std::ranges::all_of(kCatalog, [](const MetricRow& row) {
  return has_bounds(row) != (row.kind == MetricKind::text || row.kind == MetricKind::flags);
}));

template <Probe probe>
constexpr auto kFills = [] {
  constexpr auto is_filled = [](const MetricRow& row) { return row.probe == probe; };
  std::array<Metric, std::ranges::count_if(kCatalog, is_filled)> metrics{};
  auto next = metrics.begin();
  for (const MetricRow& row : kCatalog) {
    if (is_filled(row)) *next++ = row.metric;
  }
  return metrics;
}();

constexpr std::array kProbes = {
#define GPUYARD_PROBE(name, tier) ProbeRow{Probe::name, #name, Tier::tier, kFills<Probe::name>},
#include "gpu/device/metrics.def"
};

}  // namespace

std::span<const MetricRow> catalog() {
  return kCatalog;
}

std::span<const ProbeRow> probes() {
  return kProbes;
}

}  // namespace gpuyard
