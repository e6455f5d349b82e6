// gpuyard driver
#include <fmt/format.h>

#include "base/json_writer.h"
#include "cli/reading.h"
#include "cli/terminal.h"

namespace gpuyard::cli {
namespace {

int show_nothing(const DriverVerb& verb, const Error& error) {
  if (verb.json) print(json::to_json(protocol::DriverInfo{}) + "\n");
  return complain_about_source(error);
}

}  // namespace

int run(const DriverVerb& verb) {
  auto open = open_source(verb.source);
  if (!open) return show_nothing(verb, open.error());
  const auto driver = open->source->driver();
  if (!driver) return show_nothing(verb, driver.error());
  if (verb.json) {
    print(json::to_json(*driver) + "\n");
  } else {
    print(fmt::format("driver  {}\nCUDA    {} (the highest this driver supports)\nNVML    {}\n",
                      driver->driver_version.value_or("-"),
                      driver->cuda_driver_version.value_or("-"),
                      driver->nvml_version.value_or("-")));
  }
  return 0;
}

}  // namespace gpuyard::cli
