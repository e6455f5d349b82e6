// Reads a scenario file: [world], [[gpu]] and [[at]].
#include "sim/scenario.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/files.h"
#include "sim/driver_commands.h"
#include "sim/gpu_commands.h"
#include "sim/scenario_table.h"
#include "sim/world.h"

namespace gpuyard::sim {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;
constexpr double kMinAmbient = -20.0;
constexpr double kMaxAmbient = 60.0;

class ScenarioFile {
 public:
  ScenarioFile(const std::string& file, std::optional<int> gpus) : file_(file), gpus_(gpus) {}

  Result<Scenario> read(const toml::table& document) {
    ScenarioTable top(document, "a scenario", file_);
    const toml::node* world = top.node("world");
    const toml::node* gpus = top.node("gpu");
    const toml::node* timeline = top.node("at");
    if (world != nullptr && !world->is_table()) top.add_error("world", "must be a table: [world]");
    check_tables(top, "gpu", gpus);
    check_tables(top, "at", timeline);
    if (auto good = top.finish(); !good) return std::move(good).error();

    const toml::table none;
    auto done = read_world(world != nullptr ? *world->as_table() : none);
    if (done && gpus != nullptr) done = read_each(*gpus, [&](auto& table) { read_gpu(table); });
    if (done && timeline != nullptr) done = read_timeline(*timeline);
    if (!done) return std::move(done).error();
    return std::move(scenario_);
  }

 private:
  static void check_tables(ScenarioTable& top, const char* key, const toml::node* node) {
    if (node == nullptr) return;
    const auto* list = node->as_array();
    if (list == nullptr || !list->is_homogeneous(toml::node_type::table)) {
      top.add_error(key, fmt::format("must be tables: [[{}]]", key));
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
    if (const auto setters = world.one_of("setters", setter_access_names())) {
      options.setters = setter_access_from_name(*setters).value_or(options.setters);
    }
    read_driver(world, options);
    read_time(world, options);
    options.missing = world.texts("missing");
    scenario_.ambient =
        world.number("ambient", kMinAmbient, kMaxAmbient).value_or(scenario_.ambient);
    auto fleet = parse_fleet(options.model, options.gpus);
    if (fleet) {
      fleet_ = *std::move(fleet);
    } else {
      world.add_error(world.has("model") ? "model" : "gpus", fleet.error().text());
    }
    scenario_.gpus = fleet_.size();
    return world.finish();
  }

  static void read_driver(ScenarioTable& world, WorldOptions& options) {
    if (auto version = world.text("driver_version")) {
      const auto good = check_driver_version(*version);
      if (!good) world.add_error("driver_version", good.error().text());
      options.driver_version = *std::move(version);
    }
    if (const auto bytes = world.integer("process_entries", 16, 32)) {
      options.process_entry_bytes = static_cast<std::uint32_t>(*bytes);
      if (*bytes % 8 != 0) world.add_error("process_entries", "must be 16, 24 or 32 bytes");
    }
  }

  void read_time(ScenarioTable& world, WorldOptions& options) {
    const auto speed = world.number("speed", kMinSpeed, kMaxSpeed);
    options.speed = speed.value_or(1.0);
    options.stepped = world.flag("stepped");
    if (speed && options.stepped) world.add_error("speed", "not allowed in a stepped world");
    scenario_.warm_up = world.parsed("warm_up", parse_time).value_or(scenario_.warm_up);
    if (scenario_.warm_up > kMaxWarmUp) world.add_error("warm_up", "must be at most 10m");
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
    const auto gpus = read_gpus(table, fleet_.size());
    const auto load = table.parsed("workload", parse_workload);
    if (!table.has("gpu")) table.add_error("needs gpu = N");
    if (!table.has("workload")) table.add_error("needs workload = \"...\"");
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
    if (!entry.has("time")) entry.add_error("needs time = \"10s\"");
    auto& timeline = scenario_.timeline;
    for (const Command& command : commands_of(entry, fleet_, fixed_places)) {
      if (at) timeline.push_back({*at, timeline.size(), command});
    }
    if (timeline.size() > kMaxTimelineEntries)
      entry.add_error("exceeds the maximum number of events");
  }

  static constexpr std::chrono::minutes kMaxWarmUp{10};

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
  const auto text = read_file(file, kMaxFileBytes);
  if (!text) return text.error();
  return parse_scenario(*text, file, gpus);
}

}  // namespace gpuyard::sim
