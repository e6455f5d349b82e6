// gpuyard devices
#include "base/json_writer.h"
#include "cli/device_table.h"
#include "cli/reading.h"
#include "cli/terminal.h"
#include "device/error.h"

namespace gpuyard::cli {
namespace {

// No driver is an answer too: scripts get valid JSON with an empty list, and exit code 5.
int show_nothing(const DevicesVerb& verb, const Error& error) {
  if (verb.json) {
    protocol::Snapshot empty;
    empty.taken_at = to_rfc3339(wall_now());
    empty.driver_error = init_failure_reason(error);
    print(json::to_json(empty) + "\n");
  }
  return complain_about_source(error);
}

}  // namespace

int run(const DevicesVerb& verb) {
  auto open = open_source(verb.source);
  if (!open) return show_nothing(verb, open.error());
  const auto snapshot = open->source->snapshot();
  if (!snapshot) return show_nothing(verb, snapshot.error());
  if (verb.json) print(json::to_json(*snapshot) + "\n");
  if (!snapshot->driver_initialised) {
    return complain_about_source(init_failed(snapshot->driver_error.value_or("unknown reason")));
  }
  if (snapshot->devices.empty()) {
    return complain({Errc::unavailable, "the driver is loaded and reports no GPU"});
  }
  if (!verb.json) print(device_table(*snapshot));
  return 0;
}

}  // namespace gpuyard::cli
