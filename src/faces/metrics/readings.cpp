#include "metrics/readings.h"

#include <algorithm>

#include "device/catalog.h"

namespace gpuyard::metrics {
namespace {

bool has_series(const Snapshot& snapshot, Metric metric) {
  return std::ranges::any_of(snapshot.devices, [&](const DeviceState& device) {
    return std::ranges::any_of(current_readings(device, metric),
                               [](const Reading& one) { return one.number() != nullptr; });
  });
}

double in_base_unit(const Row& row, std::int64_t number) {
  const UnitInfo& unit = unit_info(row.unit);
  const auto native = static_cast<double>(number);
  // Dividing by 1000 is exact where multiplying by 0.001 is not.
  return unit.prometheus_factor < 1 ? native / static_cast<double>(unit.json_divisor)
                                    : native * unit.prometheus_factor;
}

// One series for each flag there is, so that "it was never set" can be told from "not known".
void put_flags(Text& text, const Row& row, std::string_view device, std::int64_t flags) {
  for (const Word& word : row.words) {
    text.begin(row.prometheus);
    text.label("device", device);
    text.label("reason", word.text);
    text.end((flags & word.value) != 0 ? 1 : 0);
  }
}

void put_reading(Text& text, const Row& row, std::string_view device, const Reading& reading) {
  const std::int64_t* number = reading.number();
  if (number == nullptr) return;
  if (row.kind == Kind::flags) return put_flags(text, row, device, *number);
  text.begin(row.prometheus);
  text.label("device", device);
  if (row.dimension != Dimension::none) {
    text.label(label_of(row.dimension), element_of(row.dimension, reading.index));
  }
  text.end(in_base_unit(row, *number));
}

void put_row(Text& text, const Snapshot& snapshot, const Row& row) {
  if (row.subject != Subject::device || row.prometheus.empty()) return;
  if (!has_series(snapshot, row.metric)) return;
  text.family(row.prometheus, row.kind == Kind::counter ? "counter" : "gauge", row.help);
  for (const DeviceState& device : snapshot.devices) {
    const std::string label = std::to_string(device.info.index);
    for (const Reading& reading : current_readings(device, row.metric)) {
      put_reading(text, row, label, reading);
    }
  }
}

}  // namespace

// A scraper takes every sample for one of now, so of a GPU that does not answer there is none: the
// JSON has its last readings with their age.
std::span<const Reading> current_readings(const DeviceState& device, Metric metric) {
  const bool current = device.condition == DeviceCondition::responsive;
  return current ? device.sample.all(metric) : std::span<const Reading>{};
}

void put_readings(Text& text, const Snapshot& snapshot) {
  for (const Row& row : catalog()) put_row(text, snapshot, row);
}

}  // namespace gpuyard::metrics
