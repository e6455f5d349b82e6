// gpuyard devices
#include <algorithm>
#include <thread>

#include "base/json_writer.h"
#include "cli/read/device_page.h"
#include "cli/read/device_table.h"
#include "cli/read/gpu_selection.h"
#include "cli/read/reading.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"
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

// What the driver tells of the time between two questions it cannot tell at the first.
bool wants_a_second_look(const protocol::Snapshot& snapshot) {
  return std::ranges::any_of(snapshot.devices, [](const protocol::Device& device) {
    const auto reason = device.missing.find(json_key(row_of(Metric::gpm_sm)));
    return reason != device.missing.end() && is_not_ready(reason->second);
  });
}

// Everything, for one GPU in full.
Result<protocol::Snapshot> look_closely(client::Source& source) {
  auto snapshot = source.snapshot(ProbeSet::all(), client::Owners::looked_up);
  if (!snapshot || !wants_a_second_look(*snapshot)) return snapshot;
  constexpr auto kBetween = std::chrono::milliseconds(110);  // the least that counters need is 100
  std::this_thread::sleep_for(kBetween);
  return source.snapshot(ProbeSet::all(), client::Owners::looked_up);
}

Result<protocol::Snapshot> ask(const DevicesVerb& verb, client::Source& source) {
  if (verb.json) return source.snapshot(ProbeSet::all(), client::Owners::looked_up);
  return verb.gpus.empty() ? source.snapshot(kTableProbes, client::Owners::not_needed)
                           : look_closely(source);
}

std::string text_of(const DevicesVerb& verb, const protocol::Snapshot& snapshot) {
  const Screen screen = Screen::of_stdout(verb.color);
  if (verb.gpus.empty()) return device_table(snapshot, screen);
  std::string text;
  for (const protocol::Device& device : snapshot.devices) {
    if (!text.empty()) text += "\n";
    text += device_page(snapshot, device, screen);
  }
  return text;
}

}  // namespace

Options add_devices(Options program, DevicesVerb& verb) {
  const Options devices = program.verb("devices", "Show the GPUs, or one of them in full");
  add_source(devices, verb.source);
  add_gpus(devices, verb.gpus, "These in full: indexes, UUIDs or PCI addresses");
  devices.flag("--json", verb.json, "Print JSON");
  add_color(devices, verb.color);
  return devices;
}

int run(const DevicesVerb& verb) {
  auto open = open_source(verb.source);
  if (!open) return show_nothing(verb, open.error());
  auto snapshot = ask(verb, *open->source);
  if (!snapshot) return show_nothing(verb, snapshot.error());
  if (!verb.gpus.empty() && snapshot->driver_initialised) {
    if (const auto kept = keep_only(*snapshot, verb.gpus); !kept) return complain(kept.error());
  }
  if (verb.json) print(json::to_json(*snapshot) + "\n");
  if (!snapshot->driver_initialised) {
    return complain_about_source(init_failed(snapshot->driver_error.value_or("unknown reason")));
  }
  if (snapshot->devices.empty()) {
    return complain({Errc::unavailable, "the driver is loaded and reports no GPU"});
  }
  if (!verb.json) print(text_of(verb, *snapshot));
  return 0;
}

}  // namespace gpuyard::cli
