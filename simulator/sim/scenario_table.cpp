#include "sim/scenario_table.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/text.h"
#include "sim/physics.h"

namespace gpuyard::sim {

const toml::node* ScenarioTable::node(std::string_view key) {
  if (std::ranges::find(read_keys_, key) == read_keys_.end()) read_keys_.push_back(key);
  return table_.get(key);
}

bool ScenarioTable::has(std::string_view key) {
  return node(key) != nullptr;
}

std::optional<std::string> ScenarioTable::text(std::string_view key) {
  const toml::node* value = node(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* found = value->as_string()) return found->get();
  add_error(key, "must be a string");
  return std::nullopt;
}

std::optional<std::string> ScenarioTable::text_or_number(std::string_view key) {
  const toml::node* value = node(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* found = value->as_string()) return found->get();
  if (const auto* found = value->as_integer()) return fmt::to_string(found->get());
  if (const auto* found = value->as_floating_point()) return fmt::to_string(found->get());
  add_error(key, "must be a string or a number");
  return std::nullopt;
}

std::optional<std::string> ScenarioTable::one_of(std::string_view key,
                                                 std::vector<std::string_view> words) {
  auto found = text(key);
  if (found && std::ranges::find(words, *found) == words.end()) {
    add_error(key, fmt::format("\"{}\" is not one of {}", *found, fmt::join(words, ", ")));
    found.reset();
  }
  return found;
}

std::optional<std::int64_t> ScenarioTable::integer(std::string_view key, std::int64_t min,
                                                   std::int64_t max) {
  const toml::node* value = node(key);
  if (value == nullptr) return std::nullopt;
  const auto* found = value->as_integer();
  if (found != nullptr && found->get() >= min && found->get() <= max) return found->get();
  add_error(key, fmt::format("must be an integer from {} to {}", min, max));
  return std::nullopt;
}

std::optional<double> ScenarioTable::number(std::string_view key, double min, double max) {
  const toml::node* value = node(key);
  if (value == nullptr) return std::nullopt;
  const auto found = value->is_number() ? value->value<double>() : std::nullopt;
  if (found && *found >= min && *found <= max) return found;
  add_error(key, fmt::format("must be a number from {} to {}", min, max));
  return std::nullopt;
}

std::optional<bool> ScenarioTable::boolean(std::string_view key) {
  const toml::node* value = node(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* found = value->as_boolean()) return found->get();
  add_error(key, "must be true or false");
  return std::nullopt;
}

bool ScenarioTable::flag(std::string_view key) {
  const auto found = boolean(key);
  if (found && !*found) add_error(key, "can only be true; omit it otherwise");
  return found.value_or(false);
}

std::vector<std::string> ScenarioTable::texts(std::string_view key) {
  const toml::node* value = node(key);
  if (value == nullptr) return {};
  auto found = toml_as<std::vector<std::string>>(*value);
  if (!found) add_error(key, "must be a list of strings: [\"...\"]");
  return found.value_or(std::vector<std::string>());
}

void ScenarioTable::add_error(std::string_view key, const std::string& what) {
  const toml::node* value = table_.get(key);
  record_error(value != nullptr ? value->source() : table_.source(),
               fmt::format("{}: {}", key, what));
}

void ScenarioTable::add_error(const std::string& what) {
  if (table_error_.empty()) {
    table_error_ = fmt::format("{}:{}: {} {}", file_, table_.source().begin.line, name_, what);
  }
}

void ScenarioTable::record_error(const toml::source_region& where, const std::string& what) {
  if (line_ && *line_ <= where.begin.line) return;
  line_ = where.begin.line;
  key_error_ = fmt::format("{}:{}: {} {}", file_, where.begin.line, name_, what);
}

void ScenarioTable::check_unknown_keys() {
  std::ranges::sort(read_keys_);
  for (const auto& [key, value] : table_) {
    if (std::ranges::binary_search(read_keys_, key.str())) continue;
    record_error(key.source(), fmt::format("has an unknown key \"{}\"; known keys: {}", key.str(),
                                           fmt::join(read_keys_, ", ")));
  }
}

Result<void> ScenarioTable::finish() {
  check_unknown_keys();
  if (line_) return Error{Errc::invalid, key_error_};
  if (!table_error_.empty()) return Error{Errc::invalid, table_error_};
  return {};
}

namespace {

struct Unit {
  std::string_view name;
  double milliseconds;
};

constexpr std::array kUnits{Unit{"", 1'000.0}, Unit{"ms", 1.0}, Unit{"s", 1'000.0},
                            Unit{"m", 60'000.0}, Unit{"h", 3'600'000.0}};

}  // namespace

Result<std::chrono::milliseconds> parse_time(std::string_view text) {
  std::string_view unit = text;
  const auto number = take_number<double>(unit);
  const auto known = std::find_if(kUnits.begin(), kUnits.end(),
                                  [&](const Unit& each) { return each.name == unit; });
  const double max_ms = std::chrono::duration<double, std::milli>(kMaxSimulatedTime).count();
  const double ms = number && known != kUnits.end() ? *number * known->milliseconds : -1.0;
  if (!(ms >= 0.0 && ms <= max_ms)) {
    return Error{
        Errc::invalid,
        fmt::format("\"{}\" is not a duration such as 500ms, 10s, 2m or 1h, of at most 168h",
                    text)};
  }
  const std::chrono::milliseconds time(std::llround(ms));
  if (time % kStep != time.zero()) {
    return Error{Errc::invalid,
                 fmt::format("\"{}\": must be a multiple of {} ms", text, kStep.count())};
  }
  return time;
}

}  // namespace gpuyard::sim
