#include "history/remembered.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/ascii.h"
#include "base/nearest.h"

namespace gpuyard::history {
namespace {

struct ShortName {
  std::string_view name;
  Metric metric;
};
// What people say who mean the first of several.
constexpr std::array kShortNames = {
    ShortName{"power", Metric::power_draw},
    ShortName{"temperature", Metric::temperature_core},
    ShortName{"temp", Metric::temperature_core},
    ShortName{"utilization", Metric::utilization_gpu},
    ShortName{"utilisation", Metric::utilization_gpu},
    ShortName{"util", Metric::utilization_gpu},
    ShortName{"memory", Metric::memory_used},
    ShortName{"clock", Metric::clock_sm},
};

Duration period_of(Tier tier) {
  switch (tier) {
    case Tier::fast:
      return kFastPeriod;
    case Tier::slow:
      return kSlowPeriod;
    case Tier::rare:
      break;
  }
  return kRarePeriod;
}

bool is_remembered(const Row& row, Tier tier) {
  if (row.subject != Subject::device) return false;
  return row.kind == Kind::counter || (row.kind == Kind::gauge && tier != Tier::rare);
}

using Cadences = std::array<std::int64_t, kMetricCount>;

Cadences cadences() {
  Cadences all{};
  for (const ProbeRow& probe : probes()) {
    for (const Metric metric : probe.fills) {
      if (!is_remembered(row_of(metric), probe.tier)) continue;
      all[static_cast<std::size_t>(metric)] = to_milliseconds(period_of(probe.tier));
    }
  }
  return all;
}

bool is_called(const Row& row, std::string_view name) {
  return name == row.key || name == json_key(row) || (!name.empty() && name == row.nvidia_smi);
}

Error unknown(std::string_view name) {
  std::vector<std::string> keys;
  for (const Row* row : remembered_rows()) {
    keys.push_back(json_key(*row));
    keys.emplace_back(row->key);
    keys.emplace_back(row->nvidia_smi);
  }
  const auto known =
      std::ranges::find_if(catalog(), [&](const Row& row) { return is_called(row, name); });
  if (known != catalog().end()) {
    return {Errc::invalid,
            fmt::format("\"{}\" has no history: it is no number that changes by itself", name)};
  }
  const std::string near(nearest(name, {keys.begin(), keys.end()}));
  return {Errc::invalid,
          fmt::format("there is no metric \"{}\"{}; `gpuyard query --list` shows all", name,
                      near.empty() ? "" : fmt::format(", the nearest is \"{}\"", near))};
}

Error ambiguous(std::string_view name, const std::vector<const Row*>& rows) {
  std::vector<std::string> keys;
  for (const Row* row : rows) keys.push_back(json_key(*row));
  return {Errc::invalid, fmt::format("\"{}\" may be each of {}", name, fmt::join(keys, ", "))};
}

}  // namespace

std::int64_t cadence_of(Metric metric) {
  static const Cadences all = cadences();
  return all[static_cast<std::size_t>(metric)];
}

std::vector<const Row*> remembered_rows() {
  std::vector<const Row*> rows;
  for (const Row& row : catalog()) {
    if (cadence_of(row.metric) > 0) rows.push_back(&row);
  }
  return rows;
}

Result<const Row*> find_row(std::string_view given) {
  const std::string name = to_lower(given);
  const auto rows = remembered_rows();
  const auto exact =
      std::ranges::find_if(rows, [&](const Row* row) { return is_called(*row, name); });
  if (exact != rows.end()) return *exact;
  const auto alias = std::ranges::find(kShortNames, name, &ShortName::name);
  if (alias != kShortNames.end()) return &row_of(alias->metric);
  std::vector<const Row*> begun;
  std::ranges::copy_if(rows, std::back_inserter(begun),
                       [&](const Row* row) { return row->key.starts_with(name); });
  if (name.empty() || begun.empty()) return unknown(given);
  if (begun.size() > 1) return ambiguous(given, begun);
  return begun.front();
}

Result<std::uint16_t> find_element(const Row& row, std::string_view name) {
  for (std::uint16_t i = 0; i < extent_of(row.dimension); ++i) {
    if (row.dimension != Dimension::none && element_of(row.dimension, i) == name) return i;
  }
  if (row.dimension == Dimension::none) {
    return Error{Errc::invalid,
                 fmt::format("there is one {} for each GPU: leave the element out", json_key(row))};
  }
  const auto last = static_cast<std::uint16_t>(extent_of(row.dimension) - 1);
  return Error{
      Errc::invalid,
      fmt::format("\"{}\" is no {} of {}: they are called {} to {}", name, label_of(row.dimension),
                  json_key(row), element_of(row.dimension, 0), element_of(row.dimension, last))};
}

}  // namespace gpuyard::history
