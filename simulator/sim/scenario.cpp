// Reads a scenario file: [world], [[gpu]] and [[at]].
#include "sim/scenario.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/files.h"
#include "sim/scenario_table.h"
#include "sim/world.h"
#include "sim/world_commands.h"

namespace gpuyard::sim {
namespace {

constexpr std::size_t kMaxFile = std::size_t{1} << 20;
constexpr double kColdest = -20.0;
constexpr double kHottest = 60.0;

class ScenarioFile {
 public:
  ScenarioFile(const std::string& file, std::optional<int> gpus) : file_(file), gpus_(gpus) {}

  Result<Scenario> read(const toml::table& document) {
    ScenarioTable top(document, "a scenario", file_);
    const toml::node* world = top.node("world");
    const toml::node* gpus = top.node("gpu");
    const toml::node* timeline = top.node("at");
    if (world != nullptr && !world->is_table()) top.wrong("world", "must be a table: [world]");
    must_be_tables(top, "gpu", gpus);
    must_be_tables(top, "at", timeline);
    if (auto good = top.finish(); !good) return std::move(good).error();

    const toml::table none;
    auto done = read_world(world != nullptr ? *world->as_table() : none);
    if (done && gpus != nullptr) done = read_each(*gpus, [&](auto& table) { read_gpu(table); });
    if (done && timeline != nullptr) done = read_timeline(*timeline);
    if (!done) return std::move(done).error();
    return std::move(scenario_);
  }

 private:
  static void must_be_tables(ScenarioTable& top, const char* key, const toml::node* node) {
    if (node == nullptr) return;
    const auto* list = node->as_array();
    if (list == nullptr || !list->is_homogeneous(toml::node_type::table)) {
      top.wrong(key, fmt::format("must be tables: [[{}]]", key));
    }
  }

  Result<void> read_world(const toml::table& table) {
    ScenarioTable world(table, "[world]", file_);
    WorldOptions& options = scenario_.world;
    if (auto model = world.text("model")) options.model = *std::move(model);
    if (const auto gpus = world.integer("gpus", 1, kMaxGpus))
      options.gpus = static_cast<int>(*gpus);
    if (gpus_) options.gpus = gpus_;
    if (const auto load = world.parsed("workload", parse_workload)) options.load = *load;
    if (const auto setters = world.one_of("setters", setters_names())) {
      options.setters = setters_from_name(*setters).value_or(options.setters);
    }
    read_driver(world, options);
    read_time(world, options);
    options.missing = world.texts("missing");
    scenario_.ambient = world.number("ambient", kColdest, kHottest).value_or(scenario_.ambient);
    auto fleet = parse_fleet(options.model, options.gpus);
    if (fleet) {
      fleet_ = *std::move(fleet);
    } else {
      world.wrong(world.has("model") ? "model" : "gpus", fleet.error().text());
    }
    scenario_.gpus = fleet_.size();
    return world.finish();
  }

  static void read_driver(ScenarioTable& world, WorldOptions& options) {
    if (auto version = world.text("driver_version")) {
      const auto good = check_driver_version(*version);
      if (!good) world.wrong("driver_version", good.error().text());
      options.driver_version = *std::move(version);
    }
    if (const auto bytes = world.integer("process_entries", 16, 32)) {
      options.process_entry_bytes = static_cast<std::uint32_t>(*bytes);
      if (*bytes % 8 != 0) world.wrong("process_entries", "must be 16, 24 or 32 bytes");
    }
  }

  void read_time(ScenarioTable& world, WorldOptions& options) {
    const auto speed = world.number("speed", kLeastSpeed, kMostSpeed);
    options.speed = speed.value_or(1.0);
    options.stepped = world.flag("stepped");
    if (speed && options.stepped) world.wrong("speed", "not allowed in a stepped world");
    scenario_.warm_up = world.parsed("warm_up", parse_time).value_or(scenario_.warm_up);
    if (scenario_.warm_up > kLongestWarmUp) world.wrong("warm_up", "must be at most 10m");
  }

  // Reads the tables of a list, up to the first error.
  template <class Read>
  Result<void> read_each(const toml::node& list, Read&& read, const char* name = "[[gpu]]") {
    for (const auto& element : *list.as_array()) {
      ScenarioTable table(*element.as_table(), name, file_);
      read(table);
      if (auto good = table.finish(); !good) return good;
    }
    return {};
  }

  void read_gpu(ScenarioTable& table) {
    const auto gpus = gpus_named(table, fleet_.size());
    const auto load = table.parsed("workload", parse_workload);
    if (!table.has("gpu")) table.wrong("needs gpu = N");
    if (!table.has("workload")) table.wrong("needs workload = \"...\"");
    if (!load) return;
    for (const std::uint32_t gpu : gpus) {
      scenario_.loads.push_back(load_command(static_cast<int>(gpu), *load));
    }
  }

  Result<void> read_timeline(const toml::node& list) {
    const toml::array& entries = *list.as_array();
    const bool fixed_places = std::none_of(entries.begin(), entries.end(), [](const auto& entry) {
      const auto* table = entry.as_table();
      return table != nullptr && (table->contains("unplug") || table->contains("plug"));
    });
    auto& timeline = scenario_.timeline;
    auto done =
        read_each(list, [&](ScenarioTable& entry) { read_entry(entry, fixed_places); }, "[[at]]");
    std::ranges::sort(timeline, {},
                      [](const TimedCommand& timed) { return std::pair(timed.at, timed.number); });
    return done;
  }

  void read_entry(ScenarioTable& entry, bool fixed_places) {
    const auto at = entry.parsed("time", parse_time);
    if (!entry.has("time")) entry.wrong("needs time = \"10s\"");
    auto& timeline = scenario_.timeline;
    for (const Command& command : commands_of(entry, fleet_, fixed_places)) {
      if (at) timeline.push_back({*at, timeline.size(), command});
    }
    if (timeline.size() > kMostTimelineEntries) entry.wrong("exceeds the maximum number of events");
  }

  static constexpr std::chrono::minutes kLongestWarmUp{10};

  const std::string& file_;
  std::optional<int> gpus_;
  Fleet fleet_;
  Scenario scenario_;
};

}  // namespace

Result<Scenario> parse_scenario(std::string_view text, const std::string& file,
                                std::optional<int> gpus) {
  const auto document = parse_toml(text, file);
  if (!document) return document.error();
  return ScenarioFile(file, gpus).read(*document);
}

Result<Scenario> read_scenario(const std::string& file, std::optional<int> gpus) {
  const auto text = read_file(file, kMaxFile);
  if (!text) return text.error();
  return parse_scenario(*text, file, gpus);
}

}  // namespace gpuyard::sim
