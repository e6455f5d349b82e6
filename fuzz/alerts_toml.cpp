// Reads any text as the file of rules and sinks: each half accepts it whole and within its limits,
// or refuses it with file and line.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "core/andon/rule_reader.h"
#include "io/notify/sink_config.h"
#include "require.h"

namespace {

using gpuyard::Duration;
using gpuyard::andon::Rule;
using gpuyard::fuzz::require;
using gpuyard::notify::SinkConfig;
using gpuyard::notify::SinkKind;

constexpr Duration kMaxDuration = std::chrono::hours(24 * 30);

bool is_within_limit(const std::string& text) {
  return text.size() <= gpuyard::andon::kMaxTextLength;
}

bool is_short_list(const std::vector<std::string>& texts) {
  return texts.size() <= gpuyard::andon::kMaxListLength &&
         std::ranges::all_of(texts, is_within_limit);
}

bool is_within_limit(Duration duration) {
  return duration >= Duration::zero() && duration <= kMaxDuration;
}

void check_limits(const Rule& rule) {
  require(!rule.name.empty() && rule.name.size() <= 48, "a rule has a short name");
  require(!rule.message.empty() && is_within_limit(rule.message), "a rule has a message");
  require(is_within_limit(rule.advice) && is_within_limit(rule.on), "texts are short");
  require(is_short_list(rule.gpus) && is_short_list(rule.inhibits) && is_short_list(rule.sinks) &&
              is_short_list(rule.command),
          "lists are short");
  require(is_within_limit(rule.hold) && is_within_limit(rule.clear_hold) &&
              (!rule.over || is_within_limit(*rule.over)),
          "times are bounded");
  require(!rule.cap_w || *rule.cap_w > 0, "a cap leaves some power");
  require(std::abs(rule.at) <= 1e15, "numbers are bounded");
}

void check_answers(const Rule& rule, double value) {
  require(!rule.is_reached(value) || !rule.is_clear(value), "nothing is reached and clear at once");
  const int severity = rule.severity_of(value);
  require(severity >= 0 && severity <= 100, "a severity is within 0 and 100");
  message_of(rule, {"3", "a GPU", value, 79, "why"});
}

void check_rules(std::string_view text) {
  const auto rules = apply_rules(gpuyard::andon::built_in_rules(), text, "x.toml");
  if (!rules) {
    require(rules.error().message.starts_with("x.toml:"), "a refused rule names the file");
    return;
  }
  require(rules->size() <= gpuyard::andon::kMaxRules, "there are not too many rules");
  std::set<std::string> names;
  for (const Rule& rule : *rules) {
    require(names.insert(rule.name).second, "each name is once");
    check_limits(rule);
    for (const double value : {rule.at, rule.clear_at.value_or(0), 0.0, -1e15, 1e15}) {
      check_answers(rule, value);
    }
  }
}

void check_sinks(std::string_view text) {
  const auto sinks = gpuyard::notify::read_sinks(text, "x.toml");
  if (!sinks) {
    require(sinks.error().message.starts_with("x.toml:"), "a refused sink names the file");
    return;
  }
  require(sinks->size() <= gpuyard::notify::kMaxSinks, "there are not too many sinks");
  std::set<std::string> names;
  for (const SinkConfig& sink : *sinks) {
    require(!sink.name.empty() && sink.name.size() <= 32, "a sink has a short name");
    require(names.insert(sink.name).second, "each name is once");
    require(sink.timeout > Duration::zero() && sink.timeout <= std::chrono::minutes(5),
            "a sink has a timeout");
    require(sink.rate_per_minute > 0, "a sink has a positive rate");
    require((sink.kind == SinkKind::command) == !sink.argv.empty(), "a command has a program");
    require(!sink.destination().empty(), "a sink can be named to people");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // The files that a sink names are read. A mutation may name a pipe, which would block for ever.
  if (text.find("/dev") != text.npos || text.find("/proc") != text.npos) return 0;
  check_rules(text);
  check_sinks(text);
  return 0;
}
