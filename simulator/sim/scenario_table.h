// One table of a scenario file, read key by key: what is not asked for is an unknown key.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/toml_reader.h"
#include "sim/command.h"
#include "sim/world.h"

namespace gpuyard::sim {

// Every getter answers empty where the key is missing or wrong; finish() tells the first thing that
// is wrong, by line.
class ScenarioTable {
 public:
  // `name` is what messages call it: "[world]".
  ScenarioTable(const toml::table& table, std::string name, const std::string& file)
      : table_(table), name_(std::move(name)), file_(file) {}

  bool has(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  std::optional<std::string> one_of(std::string_view key, std::vector<std::string_view> words);
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t least, std::int64_t most);
  std::optional<double> number(std::string_view key, double least, double most);
  bool flag(std::string_view key);  // only `true` can be said
  std::optional<bool> boolean(std::string_view key);
  std::vector<std::string> texts(std::string_view key);

  // A text that `parse(text) -> Result<T>` understands, or a bare number where it may be one.
  template <class Parse>
  auto parsed(std::string_view key, Parse&& parse) {
    using T = std::decay_t<decltype(*parse(std::string_view{}))>;
    const auto said = text_or_number(key);
    if (!said) return std::optional<T>();
    auto value = parse(*said);
    if (!value) {
      wrong(key, value.error().message);
      return std::optional<T>();
    }
    return std::optional<T>(*std::move(value));
  }

  // The value as it stands, for what has several forms; null where there is none.
  const toml::node* node(std::string_view key);

  // Something is wrong with the key's value, or with the table as a whole, which is told only if
  // each of its keys is good.
  void wrong(std::string_view key, const std::string& what);
  void wrong(const std::string& what);

  Result<void> finish();

 private:
  std::optional<std::string> text_or_number(std::string_view key);
  void complain(const toml::source_region& where, const std::string& what);
  void find_unknown();

  const toml::table& table_;
  std::string name_;
  const std::string& file_;
  std::vector<std::string_view> known_;
  std::optional<std::uint32_t> line_;  // of what is wrong first
  std::string wrong_;
  std::string whole_;
};

// Spans of simulated time, as people write them.

inline constexpr std::chrono::hours kLongestTime{24 * 7};

// "500ms", "10s", "1.5m", "2h"; a bare number is seconds. In whole steps of the physics, from 0 to
// kLongestTime; Errc::invalid says so.
Result<std::chrono::milliseconds> parse_time(std::string_view);

// One entry of a scenario's timeline: what happens, as commands to the keeper.

// The indexes that `gpu = 3`, `gpu = [0, 1]` or `gpu = "all"` (kEveryGpu) name; none where it is
// missing or wrong, which the table then knows.
std::vector<std::uint32_t> gpus_named(ScenarioTable&, std::size_t gpus);

// In the order in which they happen. Empty where something is wrong, which the table then knows.
// `fixed_places`: no GPU is ever unplugged, so that an index tells the model.
std::vector<Command> commands_of(ScenarioTable& entry, const Fleet&, bool fixed_places);

}  // namespace gpuyard::sim
