#include "faces/library/driver_source.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <cstdlib>

#include <fmt/format.h>

#include "base/text.h"
#include "gpu/driver/driver_host.h"
#include "gpu/nvml/nvml_backend.h"

namespace gpuyard::library {
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
          "--replay-began", std::to_string(replay.began_at.time_since_epoch().count())};
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
    if (name == "--replay-from")
      replay->from = Duration(parse_number<Duration::rep>(value).value_or(0));
    if (name == "--replay-speed") replay->speed = parse_number<double>(value).value_or(1);
    if (name == "--replay-began") {
      replay->began_at = TimePoint(Duration(parse_number<Duration::rep>(value).value_or(0)));
    }
  }
  DriverChoice choice = choose_nvml(nvml, simulated_library);
  choice.replay = std::move(replay);
  return choice;
}

void lower_descriptor_limit(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i + 1 < arguments.size(); i += 2) {
    if (arguments[i] != "--nofile") continue;
    rlimit limit{};
    const auto soft = parse_number<rlim_t>(arguments[i + 1]);
    if (!soft || ::getrlimit(RLIMIT_NOFILE, &limit) != 0 || *soft >= limit.rlim_cur) continue;
    limit.rlim_cur = *soft;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

void run_driver_host(const std::vector<std::string>& arguments,
                     const std::string& simulated_library) {
  ::prctl(PR_SET_NAME, "gpuyard-host");  // started as /proc/self/exe, it would be called "exe"
  lower_descriptor_limit(arguments);
  const auto choice = choice_of(arguments, simulated_library);
  driver::run_driver_host_process([&] { return open_driver(choice); });
}

}  // namespace gpuyard::library
