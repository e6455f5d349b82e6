// gpuyard energy: what the GPUs used since they were first seen, and what a command uses.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "base/files.h"
#include "base/json_writer.h"
#include "cli/read/energy_table.h"
#include "cli/read/foreground_command.h"
#include "cli/read/gpu_selection.h"
#include "cli/read/reading.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"
#include "cli/words.h"
#include "sim/visible_devices.h"

namespace gpuyard::cli {
namespace {

// A daemon forgets a window after that, whatever becomes of us.
constexpr std::int64_t kMostSeconds = std::int64_t{30} * 24 * 3600;
constexpr std::size_t kLongestName = 64;

using GpuNames = std::optional<std::vector<protocol::GpuName>>;

// The GPUs that CUDA_VISIBLE_DEVICES shows the command; where it shows it none, or is not set: all.
// CUDA's indexes are those of CUDA_DEVICE_ORDER=PCI_BUS_ID.
Result<GpuNames> visible_gpus(client::Source& source) {
  const char* const variable = std::getenv("CUDA_VISIBLE_DEVICES");
  if (variable == nullptr) return GpuNames();
  const auto snapshot = source.snapshot({}, client::Owners::not_needed);
  if (!snapshot) return snapshot.error();
  std::vector<std::string> uuids;
  for (const protocol::Device& device : snapshot->devices) uuids.push_back(device.uuid);
  std::vector<protocol::GpuName> names;
  for (const int index : sim::visible_devices(variable, uuids)) {
    names.push_back({uuids[static_cast<std::size_t>(index)]});
  }
  return names.empty() ? GpuNames() : GpuNames(std::move(names));
}

Result<GpuNames> gpus_of(const EnergyVerb& verb, client::Source& source) {
  if (verb.gpus.empty()) return visible_gpus(source);
  std::vector<protocol::GpuName> names;
  for (std::string& name : split(verb.gpus, ',')) names.push_back({std::move(name)});
  return GpuNames(std::move(names));
}

// The command without its arguments, whose words are its user's own.
std::string program_of(const std::string& command) {
  return command.substr(command.rfind('/') + 1).substr(0, kLongestName);
}

Result<std::unique_ptr<client::Measuring>> begin(const EnergyVerb& verb, client::Source& source) {
  const auto gpus = gpus_of(verb, source);
  if (!gpus) return gpus.error();
  return source.measure({*gpus, program_of(verb.command[0]), kMostSeconds});
}

// Opened before the command runs: after hours it is late to say that there is no such directory.
Result<UniqueFd> open_report(const std::string& path) {
  if (path.empty()) return UniqueFd();
  if (path == "-") return UniqueFd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) return system_error("opening " + path);
  return file;
}

void tell(const EnergyVerb& verb, const MeasuredCommand& measured, const UniqueFd& report) {
  const std::string text = json::to_json(measured) + "\n";
  if (report) {
    if (const auto written = write_all(report.get(), text); !written) {
      static_cast<void>(complain(Error(written.error()).in(verb.report)));
    }
  }
  static_cast<void>(write_all(STDERR_FILENO, verb.json ? text : energy_summary(measured)).ok());
}

int measure(const EnergyVerb& verb) {
  const ForegroundCommand foreground;  // before any thread
  const auto report = open_report(verb.report);
  if (!report) return complain(report.error());
  auto open = open_source(verb.source);
  if (!open) return complain_about_source(open.error());
  const auto measuring = begin(verb, *open->source);
  if (!measuring) return complain_about_source(measuring.error());
  const TimePoint began = BootClock::now();
  const int code = foreground.run(verb.command);
  const std::chrono::duration<double> length = BootClock::now() - began;
  // The command's own end is what counts, also where nobody can say what it used.
  const auto window = (*measuring)->end();
  if (!window) {
    static_cast<void>(complain(Error(window.error()).in("what it used is not known")));
    return code;
  }
  tell(verb,
       {window->schema, window->simulated, verb.command, code, length.count(), window->joules,
        window->gpus, window->notes},
       *report);
  return code;
}

int show(const EnergyVerb& verb) {
  auto open = open_source(verb.source);
  if (!open) return complain_about_source(open.error());
  const auto report = open->source->energy();
  if (!report) return complain(report.error());
  print(verb.json ? json::to_json(*report) + "\n" : energy_table(*report));
  return 0;
}

}  // namespace

Options add_energy(Options program, EnergyVerb& verb) {
  const Options energy = program.verb("energy", "Show what the GPUs used, or what a command uses");
  add_source(energy, verb.source);
  const Option command = energy.command(verb.command, "What to run and measure, after --");
  add_gpus_option(energy, verb.gpus, "Measure these GPUs: indexes, UUIDs or PCI addresses")
      .type_name("GPU")
      .needs(command);
  energy.option("--report", verb.report, "Write what was measured as JSON to FILE (-: stdout)")
      .type_name("FILE")
      .needs(command);
  energy.flag("--json", verb.json, "Print JSON; of a command, on stderr");
  return energy;
}

int run(const EnergyVerb& verb) {
  return verb.command.empty() ? show(verb) : measure(verb);
}

}  // namespace gpuyard::cli
