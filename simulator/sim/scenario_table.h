// One table of a scenario file, read key by key: a key that no getter reads is unknown.
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

// Every getter returns empty if the key is missing or wrong; finish() returns the first error, by
// line.
class ScenarioTable {
 public:
  // `name` is the table's name in messages: "[world]".
  ScenarioTable(const toml::table& table, std::string name, const std::string& file)
      : table_(table), name_(std::move(name)), file_(file) {}

  bool has(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  std::optional<std::string> one_of(std::string_view key, std::vector<std::string_view> words);
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t min, std::int64_t max);
  std::optional<double> number(std::string_view key, double min, double max);
  bool flag(std::string_view key);  // only `true` is allowed
  std::optional<bool> boolean(std::string_view key);
  std::vector<std::string> texts(std::string_view key);

  // Reads a text with `parse(text) -> Result<T>`. A bare number is passed to it as text.
  template <class Parse>
  auto parsed(std::string_view key, Parse&& parse) {
    using T = std::decay_t<decltype(*parse(std::string_view{}))>;
    const auto found = text_or_number(key);
    if (!found) return std::optional<T>();
    auto value = parse(*found);
    if (!value) {
      add_error(key, value.error().text());
      return std::optional<T>();
    }
    return std::optional<T>(*std::move(value));
  }

  // Returns the raw value, for keys with several forms; null if there is none.
  const toml::node* node(std::string_view key);

  // Report an error in the key's value, or in the table as a whole. The latter is shown only if
  // each key is good.
  void add_error(std::string_view key, const std::string& what);
  void add_error(const std::string& what);

  Result<void> finish();

 private:
  std::optional<std::string> text_or_number(std::string_view key);
  void record_error(const toml::source_region& where, const std::string& what);
  void check_unknown_keys();

  const toml::table& table_;
  std::string name_;
  const std::string& file_;
  std::vector<std::string_view> read_keys_;
  std::optional<std::uint32_t> line_;  // of the first error
  std::string key_error_;
  std::string table_error_;
};

inline constexpr std::chrono::hours kMaxSimulatedTime{24 * 7};

// Reads "500ms", "10s", "1.5m", "2h"; a bare number is seconds. Errc::invalid: it is not a whole
// number of physics steps from 0 to kMaxSimulatedTime.
Result<std::chrono::milliseconds> parse_time(std::string_view);

// Returns the indexes that `gpu = 3`, `gpu = [0, 1]` or `gpu = "all"` (kEveryGpu) name; none if the
// key is missing or wrong, which the table then reports.
std::vector<std::uint32_t> read_gpus(ScenarioTable&, std::size_t gpus);

// Returns the commands in the order of execution; none if the entry is wrong, which the table then
// reports. `fixed_places`: no GPU is ever unplugged, so that an index determines the model.
std::vector<Command> commands_of(ScenarioTable& entry, const Fleet&, bool fixed_places);

}  // namespace gpuyard::sim
