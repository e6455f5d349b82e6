// The command line between a keeper's creator and its keeper.
#include <charconv>

#include <fmt/format.h>

#include "sim/driver_changes.h"
#include "sim/run_keeper.h"

namespace gpuyard::sim {
namespace {

Result<int> parse_int(const std::string& name, const std::string& text) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec == std::errc{} && parsed.ptr == end) return value;
  return Error{Errc::invalid, fmt::format("{}: \"{}\" is not a number", name, text)};
}

Result<void> take_time(WorldOptions& world, const std::string& name, const std::string& value) {
  double number = 0;
  const char* const end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, number);
  if (parsed.ec != std::errc{} || parsed.ptr != end) {
    return Error{Errc::invalid, fmt::format("{}: \"{}\" is not a number", name, value)};
  }
  if (name == "--stepped") world.stepped = number != 0;
  if (name == "--speed") world.speed = number;
  return {};
}

Result<void> take(KeeperOptions& options, const std::string& name, const std::string& value) {
  if (name == "--directory") {
    options.world.directory = value;
  } else if (name == "--model") {
    options.world.model = value;
  } else if (name == "--gpus" || name == "--creator" || name == "--private") {
    const auto number = parse_int(name, value);
    if (!number) return number.error();
    if (name == "--gpus") options.world.gpus = *number;
    if (name == "--creator") options.creator = *number;
    if (name == "--private") options.world.private_directory = *number != 0;
  } else if (name == "--setters") {
    const auto setters = setters_from_name(value);
    if (!setters) return Error{Errc::invalid, fmt::format("setters for \"{}\"", value)};
    options.world.setters = *setters;
  } else if (name == "--load") {
    auto load = parse_workload(value);
    if (!load) return std::move(load).error();
    options.world.load = *load;
  } else if (name == "--missing") {
    options.world.missing.push_back(value);
  } else if (name == "--scenario") {
    options.world.scenario = value;
  } else if (name == "--driver") {
    if (auto good = check_driver_version(value); !good) return good;
    options.world.driver_version = value;
  } else if (name == "--process-entries") {
    const auto bytes = parse_int(name, value);
    if (!bytes) return bytes.error();
    options.world.process_entry_bytes = static_cast<std::uint32_t>(*bytes);
  } else if (name == "--speed" || name == "--stepped") {
    return take_time(options.world, name, value);
  } else {
    return Error{Errc::invalid, fmt::format("unknown argument {}", name)};
  }
  return {};
}

}  // namespace

std::vector<std::string> keeper_arguments(const KeeperOptions& options) {
  const WorldOptions& world = options.world;
  std::vector<std::string> arguments{"--directory",
                                     world.directory,
                                     "--model",
                                     world.model,
                                     "--load",
                                     to_string(world.load),
                                     "--setters",
                                     std::string(name_of(world.setters)),
                                     "--creator",
                                     fmt::to_string(options.creator),
                                     "--private",
                                     world.private_directory ? "1" : "0",
                                     "--stepped",
                                     world.stepped ? "1" : "0",
                                     "--speed",
                                     fmt::to_string(world.speed),
                                     "--process-entries",
                                     fmt::to_string(world.process_entry_bytes)};
  for (const std::string& function : world.missing) {
    arguments.insert(arguments.end(), {"--missing", function});
  }
  if (!world.scenario.empty()) arguments.insert(arguments.end(), {"--scenario", world.scenario});
  if (!world.driver_version.empty()) {
    arguments.insert(arguments.end(), {"--driver", world.driver_version});
  }
  if (world.gpus) arguments.insert(arguments.end(), {"--gpus", fmt::to_string(*world.gpus)});
  return arguments;
}

Result<KeeperOptions> parse_keeper_arguments(std::span<const std::string> arguments) {
  KeeperOptions options;
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    if (i + 1 == arguments.size()) {
      return Error{Errc::invalid, fmt::format("{} needs a value", arguments[i])};
    }
    if (auto taken = take(options, arguments[i], arguments[i + 1]); !taken) {
      return std::move(taken).error();
    }
  }
  return options;
}

}  // namespace gpuyard::sim
