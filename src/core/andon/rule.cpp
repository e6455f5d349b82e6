#include "core/andon/rule.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "core/andon/alert.h"
#include "core/andon/alert_severity.h"
#include "gpu/device/xid.h"

namespace gpuyard::andon {
namespace {

// "80", "99.5"
std::string number(double value) {
  const double rounded = std::round(value * 10) / 10;
  return fmt::format("{}", rounded == 0 ? 0.0 : rounded);
}

// "45 s", "7 min", "3 h 20 min"
std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::max(seconds, 0.0));
  if (whole < 120) return fmt::format("{} s", whole);
  if (whole < 7200) return fmt::format("{} min", whole / 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::string meaning_of(const MessageValues& values) {
  return values.xid ? std::string(xid_row(*values.xid).meaning) : "Its meaning is unknown.";
}

struct Recovery {
  int action;  // nvmlDeviceGpuRecoveryAction_t
  std::string_view text;
};
constexpr std::array kRecoveries = {
    Recovery{1, "a reset of the GPU"},
    Recovery{2, "a reboot of the machine"},
    Recovery{3, "a drain of peer-to-peer traffic"},
    Recovery{4, "a drain and a reset of the GPU"},
    Recovery{6, "a reset of the GPU and its PCIe bus"},
    Recovery{7, "a reboot of the whole system"},
};

std::string placeholder_text(std::string_view word, const Rule& rule, const MessageValues& values) {
  if (word == "gpu") return values.gpu;
  if (word == "name") return values.name;
  if (word == "value") return number(values.value);
  if (word == "at") return number(rule.at);
  if (word == "duration") return duration(values.value);
  if (word == "limit_duration") return duration(rule.at);
  if (word == "xid") return values.xid ? std::to_string(*values.xid) : "?";
  if (word == "why") return values.why.empty() ? "reason unknown" : values.why;
  if (word == "leased") return values.pod.empty() ? "leased" : "leased to pod " + values.pod;
  if (word == "meaning") return meaning_of(values);
  if (word == "processes") return values.processes;
  if (word == "recovery") {
    const std::string_view recovery = recovery_text(values.value);
    return recovery.empty() ? "an unknown recovery" : std::string(recovery);
  }
  // Words that only repeat the meaning say nothing.
  if (word == "text") {
    const bool new_words = meaning_of(values).find(values.driver_text) == std::string::npos;
    return new_words ? fmt::format("({})", values.driver_text) : "";
  }
  return fmt::format("{{{}}}", word);
}

// Calls word(text) for each {text}, and plain(text) for what is between.
template <class Plain, class Word>
void for_each_part(std::string_view message, Plain plain, Word word) {
  while (!message.empty()) {
    const std::size_t open = std::min(message.find('{'), message.size());
    plain(message.substr(0, open));
    message.remove_prefix(open);
    if (message.empty()) return;
    const std::size_t close = message.find('}');
    if (close == message.npos) return plain(message);
    word(message.substr(1, close - 1));
    message.remove_prefix(close + 1);
  }
}

}  // namespace

bool Rule::is_of_node() const {
  const auto* const signal = std::get_if<Signal>(&source);
  return signal != nullptr && row_of(*signal).of_node;
}

bool Rule::is_clear(double value) const {
  if (!clear_at) return !is_reached(value);
  return below ? value > *clear_at : value < *clear_at;
}

bool is_about_memory_errors(const Rule& rule, const Alert& alert) {
  if (const auto* const signal = std::get_if<Signal>(&rule.source)) {
    return *signal == Signal::health;
  }
  if (const auto* const counter = std::get_if<MetricSource>(&rule.source)) {
    return counter->metric == Metric::ecc_uncorrected_volatile ||
           counter->metric == Metric::ecc_uncorrected_aggregate;
  }
  const EventKind kind = std::get<EventCondition>(rule.source).kind;
  if (kind != EventKind::xid) return kind == EventKind::ecc_uncorrected;
  // NVIDIA's list of Xid errors: double-bit errors, and errors contained, not contained, escaped.
  constexpr std::array<std::uint32_t, 4> kMemoryErrors = {48, 94, 95, 140};
  return alert.xid && std::ranges::find(kMemoryErrors, *alert.xid) != kMemoryErrors.end();
}

bool is_about_presence(const Rule& rule) {
  const auto* const signal = std::get_if<Signal>(&rule.source);
  return signal != nullptr && (*signal == Signal::missing || *signal == Signal::lost);
}

int Rule::severity_of(double value) const {
  switch (curve) {
    case Curve::thermal:
      return thermal_severity(value, at);
    case Curve::memory:
      return memory_severity(value);
    case Curve::power:
      return power_severity(value);
    case Curve::idle:
      return idle_severity(value, at);
    case Curve::none:
      break;
  }
  return severity;
}

const Rule* find_rule(const Rules& rules, std::string_view name) {
  const auto found = std::ranges::find(rules, name, &Rule::name);
  return found != rules.end() ? &*found : nullptr;
}

std::string message_of(const Rule& rule, const MessageValues& values) {
  std::string out;
  for_each_part(
      rule.message, [&](std::string_view text) { out += text; },
      [&](std::string_view word) { out += placeholder_text(word, rule, values); });
  out.resize(out.find_last_not_of(' ') + 1);  // a word that stands for nothing leaves its blank
  return out;
}

std::string_view recovery_text(double action) {
  const auto found = std::ranges::find_if(
      kRecoveries, [&](const Recovery& one) { return static_cast<double>(one.action) == action; });
  return found != kRecoveries.end() ? found->text : std::string_view();
}

std::optional<std::string> unknown_placeholder(std::string_view message) {
  std::optional<std::string> unknown;
  for_each_part(
      message, [](std::string_view) {},
      [&](std::string_view word) {
        const bool known = std::ranges::find(kPlaceholders, word) != kPlaceholders.end();
        if (!known && !unknown) unknown = std::string(word);
      });
  return unknown;
}

}  // namespace gpuyard::andon
