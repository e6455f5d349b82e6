#include "library/driver_source.h"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "nvml/nvml_backend.h"

namespace gpuyard::library {
namespace {

template <class Number>
Number number_of(const std::string& text, Number otherwise) {
  Number number{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc{} ? number : otherwise;
}

}  // namespace

DriverChoice choose_nvml(const std::string& configured, const std::string& simulated_library) {
  if (!configured.empty()) return {configured, {}};
  const char* world = std::getenv("GPUYARD_SIM_WORLD");
  const bool in_a_world = world != nullptr && *world != '\0';
  return {in_a_world ? simulated_library : "", {}};
}

Result<std::unique_ptr<Backend>> open_driver(const DriverChoice& choice) {
  if (choice.replay) return recording::open_replay(*choice.replay);
  return nvml::make_backend(choice.path);
}

std::vector<std::string> arguments_of(const DriverChoice& choice) {
  if (!choice.replay) {
    if (choice.path.empty()) return {};
    return {"--nvml", choice.path};
  }
  const recording::Replay& replay = *choice.replay;
  return {"--replay",       replay.path,
          "--replay-from",  std::to_string(replay.from.count()),
          "--replay-speed", fmt::format("{}", replay.speed),
          "--replay-began", std::to_string(replay.began.time_since_epoch().count())};
}

DriverChoice choice_of(const std::vector<std::string>& arguments,
                       const std::string& simulated_library) {
  std::string nvml;
  std::optional<recording::Replay> replay;
  for (std::size_t i = 0; i + 1 < arguments.size(); i += 2) {
    const std::string& name = arguments[i];
    const std::string& value = arguments[i + 1];
    if (name == "--nvml") nvml = value;
    if (name == "--replay") replay.emplace().path = value;
    if (!replay) continue;
    if (name == "--replay-from") replay->from = Duration(number_of<Duration::rep>(value, 0));
    if (name == "--replay-speed") replay->speed = number_of<double>(value, 1);
    if (name == "--replay-began") {
      replay->began = TimePoint(Duration(number_of<Duration::rep>(value, 0)));
    }
  }
  DriverChoice choice = choose_nvml(nvml, simulated_library);
  choice.replay = std::move(replay);
  return choice;
}

}  // namespace gpuyard::library
