// The tables of rows and probes, from metrics.def.
#include "device/catalog.h"

#include <algorithm>
#include <array>
#include <optional>

namespace gpuyard {
namespace {

// The source of a metric: a probe, or facts already known of a GPU or of the driver.
struct Source {
  constexpr Source(Probe fills) : probe(fills) {}  // NOLINT(google-explicit-constructor)
  constexpr explicit Source(Subject known) : subject(known) {}

  Subject subject = Subject::device;
  std::optional<Probe> probe = {};
};
constexpr Source kIdentity(Subject::device_identity);
constexpr Source kDriver(Subject::driver);

constexpr std::array kEnabledWords = {Word{0, "disabled"}, Word{1, "enabled"}};
constexpr std::array kYesWords = {Word{0, "no"}, Word{1, "yes"}};
// nvmlComputeMode_t; 1 is no longer supported.
constexpr std::array kComputeWords = {Word{0, "default"}, Word{1, "exclusive_thread"},
                                      Word{2, "prohibited"}, Word{3, "exclusive_process"}};
// nvmlClocksEventReasons: one bit each.
constexpr std::array kThrottleWords = {
    Word{0x1, "idle"},        Word{0x2, "app_clocks"},      Word{0x4, "sw_power_cap"},
    Word{0x8, "hw_slowdown"}, Word{0x10, "sync_boost"},     Word{0x20, "sw_thermal"},
    Word{0x40, "hw_thermal"}, Word{0x80, "hw_power_brake"}, Word{0x100, "display_clocks"}};

constexpr Row row(Metric metric, std::string_view key, Source source, Unit unit, Kind kind,
                  Dimension dimension, std::string_view prometheus, std::string_view nvidia_smi,
                  std::string_view dcgm, std::string_view help, std::span<const Word> words = {}) {
  return {metric,    key,        unit,       kind, source.subject, source.probe,
          dimension, prometheus, nvidia_smi, dcgm, help,           words};
}

constexpr std::array kCatalog = {
#define GPUYARD_METRIC(name, source, unit, kind, dimension, ...) \
  row(Metric::name, #name, source, Unit::unit, Kind::kind, Dimension::dimension, __VA_ARGS__),
#include "device/metrics.def"
};

template <Probe probe>
constexpr auto kFills = [] {
  constexpr auto is_filled = [](const Row& row) { return row.probe == probe; };
  std::array<Metric, std::ranges::count_if(kCatalog, is_filled)> metrics{};
  auto next = metrics.begin();
  for (const Row& row : kCatalog) {
    if (is_filled(row)) *next++ = row.metric;
  }
  return metrics;
}();

constexpr std::array kProbes = {
#define GPUYARD_PROBE(name, tier) ProbeRow{Probe::name, #name, Tier::tier, kFills<Probe::name>},
#include "device/metrics.def"
};

}  // namespace

std::span<const Row> catalog() {
  return kCatalog;
}

std::span<const ProbeRow> probes() {
  return kProbes;
}

}  // namespace gpuyard
