// gpuyard driver
#include <fmt/format.h>

#include "base/json_writer.h"
#include "cli/read/answers.h"
#include "cli/read/reading.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"

namespace gpuyard::cli {
namespace {

Result<DriverAnswer> ask(client::Source& source) {
  const auto driver = source.driver();
  if (!driver) return driver.error();
  const auto simulated = source.simulated();
  if (!simulated) return simulated.error();
  return DriverAnswer{protocol::kSchemaVersion, driver->driver_version, driver->cuda_driver_version,
                      driver->nvml_version, *simulated};
}

int show_nothing(const DriverVerb& verb, const Error& error) {
  if (verb.json) print(json::to_json(DriverAnswer{}) + "\n");
  return complain_about_source(error);
}

}  // namespace

Options add_driver(Options program, DriverVerb& verb) {
  const Options driver = program.verb("driver", "Show the versions of driver, CUDA and NVML");
  add_source(driver, verb.source);
  driver.flag("--json", verb.json, "Print JSON");
  return driver;
}

int run(const DriverVerb& verb) {
  auto open = open_source(verb.source);
  if (!open) return show_nothing(verb, open.error());
  const auto answer = ask(*open->source);
  if (!answer) return show_nothing(verb, answer.error());
  if (verb.json) {
    print(json::to_json(*answer) + "\n");
    return 0;
  }
  print(fmt::format("driver  {}\nCUDA    {} (the highest this driver supports)\nNVML    {}\n{}",
                    answer->driver_version.value_or("-"), answer->cuda_driver_version.value_or("-"),
                    answer->nvml_version.value_or("-"),
                    answer->simulated ? "This driver is simulated.\n" : ""));
  return 0;
}

}  // namespace gpuyard::cli
