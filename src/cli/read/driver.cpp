// gpuyard driver
#include "base/try.h"
#include "cli/read/json_output.h"
#include "cli/read/source_access.h"
#include "cli/screen/output.h"
#include "cli/shared_options.h"
#include "faces/client/daemon_client.h"
#include "faces/library/monitor.h"

namespace gpuyard::cli {
namespace {

Result<DriverAnswer> read_driver_answer(Source& source) {
  const auto driver = GPUYARD_TRY(source.driver());
  const auto simulated = GPUYARD_TRY(source.simulated());
  return DriverAnswer{protocol::kSchemaVersion, driver.driver_version, driver.cuda_driver_version,
                      driver.nvml_version, simulated};
}

int print_no_driver(const DriverVerb& verb, const Error& error) {
  if (verb.json) print(json_line(DriverAnswer{}));
  return print_source_error(error);
}

}  // namespace

Options add_driver(Options program, DriverVerb& verb) {
  const Options driver = program.verb("driver", "Show the driver, CUDA and NVML versions");
  add_source(driver, verb.source);
  add_json(driver, verb.json);
  driver.example("gpuyard driver").example("gpuyard driver --json");
  return driver;
}

int run(const DriverVerb& verb) {
  auto open = open_source(verb.source);
  if (!open) return print_no_driver(verb, open.error());
  const auto answer = read_driver_answer(*open->source);
  if (!answer) return print_no_driver(verb, answer.error());
  // A probe of a container runs this command: a driver of which no GPU can be used is no driver.
  const auto unusable = open->source->unusable_error();
  const auto end = [&] { return unusable ? print_source_error(*unusable) : 0; };
  if (verb.json) {
    print(json_line(*answer));
    return end();
  }
  print(formatted("driver  {}\nCUDA    {} (highest version this driver supports)\nNVML    {}\n{}",
                  answer->driver_version.value_or("-"), answer->cuda_driver_version.value_or("-"),
                  answer->nvml_version.value_or("-"),
                  answer->simulated ? "This driver is simulated.\n" : Printable()));
  return end();
}

}  // namespace gpuyard::cli
