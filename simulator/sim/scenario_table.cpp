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
  if (const auto* said = value->as_string()) return said->get();
  add_error(key, "must be a string");
  return std::nullopt;
}

std::optional<std::string> ScenarioTable::text_or_number(std::string_view key) {
  const toml::node* value = node(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* said = value->as_string()) return said->get();
  if (const auto* said = value->as_integer()) return fmt::to_string(said->get());
  if (const auto* said = value->as_floating_point()) return fmt::to_string(said->get());
  add_error(key, "must be a string or a number");
  return std::nullopt;
}

std::optional<std::string> ScenarioTable::one_of(std::string_view key,
                                                 std::vector<std::string_view> words) {
  auto said = text(key);
  if (said && std::ranges::find(words, *said) == words.end()) {
    add_error(key, fmt::format("\"{}\" is not one of {}", *said, fmt::join(words, ", ")));
    said.reset();
  }
  return said;
}

std::optional<std::int64_t> ScenarioTable::integer(std::string_view key, std::int64_t least,
                                                   std::int64_t most) {
  const toml::node* value = node(key);
  if (value == nullptr) return std::nullopt;
  const auto* said = value->as_integer();
  if (said != nullptr && said->get() >= least && said->get() <= most) return said->get();
  add_error(key, fmt::format("must be an integer from {} to {}", least, most));
  return std::nullopt;
}

std::optional<double> ScenarioTable::number(std::string_view key, double least, double most) {
  const toml::node* value = node(key);
  if (value == nullptr) return std::nullopt;
  const auto said = value->is_number() ? value->value<double>() : std::nullopt;
  if (said && *said >= least && *said <= most) return said;
  add_error(key, fmt::format("must be a number from {} to {}", least, most));
  return std::nullopt;
}

std::optional<bool> ScenarioTable::boolean(std::string_view key) {
  const toml::node* value = node(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* said = value->as_boolean()) return said->get();
  add_error(key, "must be true or false");
  return std::nullopt;
}

bool ScenarioTable::flag(std::string_view key) {
  const auto said = boolean(key);
  if (said && !*said) add_error(key, "can only be true; omit it otherwise");
  return said.value_or(false);
}

std::vector<std::string> ScenarioTable::texts(std::string_view key) {
  const toml::node* value = node(key);
  if (value == nullptr) return {};
  auto said = toml_as<std::vector<std::string>>(*value);
  if (!said) add_error(key, "must be a list of strings: [\"...\"]");
  return said.value_or(std::vector<std::string>());
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
  const double longest = std::chrono::duration<double, std::milli>(kMaxSimulatedTime).count();
  const double ms = number && known != kUnits.end() ? *number * known->milliseconds : -1.0;
  if (!(ms >= 0.0 && ms <= longest)) {
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
