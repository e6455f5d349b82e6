#include "cli/screen/reading_text.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/local_time.h"
#include "base/text.h"

namespace gpuyard::cli {
namespace {

struct Scale {
  double factor;
  std::string_view unit;
};

// Uses the biggest unit in which the value is at least 1; one decimal below 100.
std::string scaled(double value, std::span<const Scale> scales) {
  const auto fits = [&](const Scale& scale) { return std::abs(value) >= scale.factor; };
  const auto scale = std::ranges::find_if(scales, fits);
  const Scale& used = scale != scales.end() ? *scale : scales.back();
  const double shown = value / used.factor;
  constexpr double kNoDecimals = 1000;
  const bool whole = used.factor <= 1 || shown >= kNoDecimals;
  return whole ? fmt::format("{:.0f} {}", shown, used.unit)
               : fmt::format("{:.1f} {}", shown, used.unit);
}

constexpr std::array kBytes = {
    Scale{1125899906842624.0, "PiB"}, Scale{1099511627776.0, "TiB"}, Scale{1073741824.0, "GiB"},
    Scale{1048576.0, "MiB"},          Scale{1024.0, "KiB"},          Scale{1.0, "B"}};
constexpr std::array kBytesPerSecond = {Scale{1e9, "GB/s"}, Scale{1e6, "MB/s"}, Scale{1e3, "kB/s"},
                                        Scale{1.0, "B/s"}};
constexpr std::array kJoules = {Scale{1e9, "GJ"}, Scale{1e6, "MJ"}, Scale{1e3, "kJ"},
                                Scale{1.0, "J"}};

std::string words_text(const MetricRow& row, std::int64_t number) {
  const auto word = std::ranges::find(row.words, number, &MetricWord::value);
  return word != row.words.end() ? std::string(word->text) : std::to_string(number);
}

std::string number_text(const MetricRow& row, std::int64_t number, const Screen& screen) {
  const auto value =
      static_cast<double>(number) / static_cast<double>(unit_info(row.unit).json_divisor);
  switch (row.unit) {
    case Unit::bytes:
      return bytes_text(number);
    case Unit::bytes_per_second:
      return scaled(value, kBytesPerSecond);
    case Unit::millijoules:
      return scaled(value, kJoules);
    case Unit::milliwatts:
      return fmt::format("{:.0f} W", value);
    case Unit::millipercent:
      return fmt::format("{:.1f} %", value);
    case Unit::nanoseconds:
      return fmt::format("{:.1f} s", value);
    case Unit::celsius:
      return fmt::format("{} {}", number, screen.utf8 ? "\u00b0C" : "C");
    case Unit::percent:
    case Unit::megahertz:
      return fmt::format("{} {}", number, unit_info(row.unit).symbol);
    case Unit::none:
      break;
  }
  if (row.metric == Metric::throttle_reasons) return throttle_text(number);
  if (row.metric == Metric::performance_state) return fmt::format("P{}", number);
  return row.kind == MetricKind::state ? words_text(row, number) : std::to_string(number);
}

// "18 of 18 up"; "17 of 18 up, down: 5".
std::string links_text(std::span<const Reading> links) {
  std::string down;
  std::size_t up = 0;
  for (const Reading& link : links) {
    const std::int64_t* state = link.number();
    if (state != nullptr && *state != 0) {
      ++up;
    } else {
      down += (down.empty() ? ", down: " : " ") + std::to_string(link.index);
    }
  }
  return fmt::format("{} of {} up{}", up, links.size(), down);
}

constexpr std::int64_t kHwSlowdown = 0x8;
constexpr std::int64_t kSwThermal = 0x20;
constexpr std::int64_t kHwThermal = 0x40;
constexpr std::int64_t kPowerBrake = 0x80;

// "H100" of "H100 80GB HBM3", "A100" of "A100-SXM4-80GB": without memory and form.
std::string model_alone(std::string_view name) {
  constexpr std::array<std::string_view, 4> kForms = {"SXM", "PCIE", "NVL", "HBM"};
  for (std::size_t at = name.find_first_of(" -"); at != name.npos;
       at = name.find_first_of(" -", at + 1)) {
    const std::string_view rest = name.substr(at + 1);
    const std::string word = to_lower(rest.substr(0, rest.find_first_of(" -")));
    const bool memory = !word.empty() && word.front() >= '0' && word.front() <= '9' &&
                        (word.ends_with("gb") || word.ends_with("g"));
    const bool form = std::ranges::any_of(
        kForms, [&](std::string_view one) { return word.starts_with(to_lower(one)); });
    if (memory || form) return std::string(name.substr(0, at));
  }
  return std::string(name);
}

struct ModelCount {
  std::string name;
  std::string alone;
  std::size_t gpus = 0;
};

}  // namespace

std::string bytes_text(std::int64_t bytes) {
  return scaled(static_cast<double>(bytes), kBytes);
}

std::string joules_text(double joules) {
  return scaled(joules, kJoules);
}

std::string value_text(const MetricRow& row, const Reading& reading, const Screen& screen) {
  if (const std::string* text = reading.text()) return printable(*text);
  if (const std::int64_t* number = reading.number()) return number_text(row, *number, screen);
  return std::string(kNothing);
}

std::string row_text(const MetricRow& row, std::span<const Reading> readings,
                     const Screen& screen) {
  if (row.dimension == Dimension::link && row.kind == MetricKind::state)
    return links_text(readings);
  std::string out;
  for (const Reading& reading : readings) {
    if (!out.empty()) out += ", ";
    if (row.dimension == Dimension::location) out += element_of(row.dimension, reading.index) + " ";
    out += value_text(row, reading, screen);
  }
  return out.empty() ? std::string(kNothing) : out;
}

std::string throttle_text(std::int64_t reasons) {
  // The driver sets this flag together with the flag of its reason.
  if ((reasons & (kHwThermal | kPowerBrake)) != 0) reasons &= ~kHwSlowdown;
  std::string out;
  for (const MetricWord& word : row_of(Metric::throttle_reasons).words) {
    if ((reasons & word.value) == 0) continue;
    if (!out.empty()) out += ", ";
    out += word.text;
  }
  std::ranges::replace(out, '_', ' ');
  return out.empty() ? "none" : out;
}

Tone throttle_tone(std::int64_t reasons) {
  if ((reasons & (kHwSlowdown | kHwThermal | kPowerBrake)) != 0) return Tone::bad;
  return (reasons & kSwThermal) != 0 ? Tone::warning : Tone::faint;
}

std::string short_name(std::string_view name) {
  for (const std::string_view prefix : {"NVIDIA ", "GeForce ", "Tesla "}) {
    if (name.starts_with(prefix) && name.size() > prefix.size()) name.remove_prefix(prefix.size());
  }
  return printable(name);
}

std::string models_text(const std::vector<std::string>& product_names) {
  std::vector<ModelCount> models;
  for (const std::string& product_name : product_names) {
    const std::string name = short_name(product_name);
    const auto known = std::ranges::find(models, name, &ModelCount::name);
    if (known != models.end()) {
      ++known->gpus;
    } else {
      models.push_back({name, model_alone(name), 1});
    }
  }
  if (models.empty()) return gpus_text(0);
  if (models.size() == 1) return fmt::format("{} {}", models.front().gpus, models.front().name);
  const bool told_apart = std::ranges::all_of(models, [&](const ModelCount& model) {
    return std::ranges::count(models, model.alone, &ModelCount::alone) == 1;
  });
  std::string text;
  for (const ModelCount& model : models) {
    if (!text.empty()) text += ", ";
    if (model.gpus > 1) text += fmt::format("{} ", model.gpus);
    text += told_apart ? model.alone : model.name;
  }
  return text;
}

std::string gpus_text(std::size_t count) {
  return count == 1 ? "1 GPU" : fmt::format("{} GPUs", count);
}

Tone severity_tone(EventSeverity severity) {
  if (severity == EventSeverity::note) return Tone::plain;
  return severity == EventSeverity::warn ? Tone::warning : Tone::bad;
}

Tone temperature_tone(std::int64_t celsius) {
  constexpr HealthThresholds kDefaults;
  if (celsius > kDefaults.temperature_unhealthy) return Tone::bad;
  return celsius > kDefaults.temperature_degraded ? Tone::warning : Tone::plain;
}

Tone health_tone(const protocol::Device& device) {
  if (device.condition != DeviceCondition::responsive) return Tone::bad;
  if (device.health == Health::unhealthy) return Tone::bad;
  return device.health == Health::degraded ? Tone::warning : Tone::strong;
}

std::string health_text(const protocol::Device& device) {
  if (device.condition != DeviceCondition::responsive) {
    return printable(
        fmt::format("{}: {}", enum_name(device.condition), device.why.value_or("unknown reason")));
  }
  if (device.health.value_or(Health::healthy) == Health::healthy) return "";
  return printable(
      fmt::format("{}: {}", enum_name(*device.health), fmt::join(device.health_reasons, "; ")));
}

Printable simulated_text(bool simulated) {
  return simulated ? "These GPUs are simulated.\n" : Printable();
}

std::string local_moment(std::string_view rfc3339, WallTime now) {
  const auto time = from_rfc3339(rfc3339);
  return time ? local_moment(*time, now) : printable(rfc3339);
}

std::string local_moment(WallTime time, WallTime now) {
  constexpr std::size_t kDate = std::string_view("2026-01-31 ").size();
  const std::string text = local_time(time, TimeDetail::minute);
  const bool same_day = local_time(now, TimeDetail::minute).starts_with(text.substr(0, kDate));
  return same_day ? text.substr(kDate) : text;
}

std::string zoned_moment(std::string_view rfc3339, WallTime now) {
  return local_moment(rfc3339, now) + " " + zone_name(now);
}

std::string zoned_moment(WallTime time, WallTime now) {
  return local_moment(time, now) + " " + zone_name(now);
}

}  // namespace gpuyard::cli
