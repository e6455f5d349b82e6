// gpuyard energy: what the GPUs used since they were first seen, and what a command uses.
#include "cli/read/energy.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "base/files.h"
#include "base/json_writer.h"
#include "cli/lease/lease_text.h"
#include "cli/read/reading.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"
#include "sim/visible_devices.h"

namespace gpuyard::cli {
namespace {

// How long the daemon keeps a window at most, in seconds, whatever becomes of us.
constexpr std::int64_t kMostSeconds = std::int64_t{30} * 24 * 3600;
constexpr std::size_t kLongestName = 64;

using GpuNames = std::optional<std::vector<protocol::GpuName>>;

// Returns the GPUs that CUDA_VISIBLE_DEVICES shows the command, or all if it shows none or is not
// set. CUDA's indexes are those of CUDA_DEVICE_ORDER=PCI_BUS_ID.
Result<GpuNames> visible_gpus(Source& source) {
  const char* const variable = std::getenv("CUDA_VISIBLE_DEVICES");
  if (variable == nullptr) return GpuNames();
  const auto snapshot = source.snapshot({}, Owners::not_needed);
  if (!snapshot) return snapshot.error();
  std::vector<std::string> uuids;
  for (const protocol::Device& device : snapshot->devices) uuids.push_back(device.uuid);
  std::vector<protocol::GpuName> names;
  for (const int index : sim::visible_devices(variable, uuids)) {
    names.push_back({uuids[static_cast<std::size_t>(index)]});
  }
  return names.empty() ? GpuNames() : GpuNames(std::move(names));
}

Result<GpuNames> gpus_of(const EnergyVerb& verb, Source& source) {
  if (verb.gpus.empty()) return visible_gpus(source);
  std::vector<protocol::GpuName> names;
  for (std::string& name : split(verb.gpus, ',')) names.push_back({std::move(name)});
  return GpuNames(std::move(names));
}

// Leaves out the command's arguments: their words are private to the user.
std::string program_of(const std::string& command) {
  return command.substr(command.rfind('/') + 1).substr(0, kLongestName);
}

Result<std::unique_ptr<Measuring>> begin(const EnergyVerb& verb, Source& source) {
  const auto gpus = gpus_of(verb, source);
  if (!gpus) return gpus.error();
  return source.measure({*gpus, program_of(verb.command[0]), kMostSeconds});
}

// Opened before the command runs: a missing directory is reported now, not after hours.
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
  // The command's exit code counts, also if nobody can say what the command used.
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

namespace {

std::string watts_text(const std::optional<double>& watts) {
  return watts ? fmt::format("{:.0f} W", *watts) : std::string(kNothing);
}

void remark(std::string& to, bool applies, std::string_view what) {
  if (!applies) return;
  if (!to.empty()) to += ", ";
  to += what;
}

std::string remarks_on(const protocol::WindowGpu& gpu) {
  // In seconds: readings lag behind the edges by their own duration anyway.
  constexpr double kNoticeable = 1;
  std::string text;
  remark(text, gpu.estimated, "estimated");
  remark(text, gpu.interrupted, "interrupted by a reset");
  remark(text, gpu.unknown_seconds >= kNoticeable,
         fmt::format("{:.0f} s not known", gpu.unknown_seconds));
  remark(text, gpu.age_seconds >= kNoticeable,
         fmt::format("no answer for {:.0f} s", gpu.age_seconds));
  return text;
}

std::string notes_text(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += fmt::format("{}\n", note);
  return text;
}

}  // namespace

std::string energy_table(const protocol::EnergyReport& report) {
  FittedTable table{{{"GPU", true},
                     {"ENERGY", true},
                     {"THIS EPOCH", true},
                     {"DAEMON DOWN", true},
                     {"SINCE (UTC)"},
                     {"UUID"},
                     {"REMARKS"}}};
  for (const protocol::GpuEnergy& gpu : report.gpus) {
    std::string remarks;
    remark(remarks, gpu.estimate.has_value(), protocol::text_of(gpu.estimate));
    remark(remarks, gpu.estimated, "estimated");
    remark(remarks, gpu.epoch.number > 1, fmt::format("epoch {}", gpu.epoch.number));
    remark(remarks, gpu.unknown_seconds >= 1,
           fmt::format("{:.0f} s not wholly known", gpu.unknown_seconds));
    table.add({{index_text(gpu.index)},
               {joules_text(gpu.joules)},
               {joules_text(gpu.epoch.joules)},
               {joules_text(gpu.accounts.daemon_down_joules)},
               {utc_text(gpu.since, kToTheMinute).value_or(gpu.since)},
               {gpu.uuid},
               {remarks}});
  }
  const std::string estimate = report.estimate ? ", " + protocol::text_of(report.estimate) : "";
  return fmt::format("{}All together {} ({:.3f} kWh{}).\n{}{}", table.text(Screen{}),
                     joules_text(report.joules), report.joules / protocol::kJoulesPerKwh, estimate,
                     report.simulated ? "These GPUs are simulated.\n" : "",
                     notes_text(report.notes));
}

std::string energy_summary(const MeasuredCommand& measured) {
  // The sum of the GPUs' means, if each has one.
  std::optional<double> mean = 0;
  for (const protocol::WindowGpu& gpu : measured.gpus) {
    mean = mean && gpu.mean_w ? std::optional(*mean + *gpu.mean_w) : std::nullopt;
  }
  std::string text = fmt::format("gpuyard: {} in {:.1f} s, mean {}\n", joules_text(measured.joules),
                                 measured.seconds, watts_text(mean));
  for (const protocol::WindowGpu& gpu : measured.gpus) {
    const std::string remarks = remarks_on(gpu);
    text += fmt::format("  GPU {}: {}, mean {}, peak {}{}\n", index_text(gpu.index),
                        joules_text(gpu.joules), watts_text(gpu.mean_w), watts_text(gpu.peak_w),
                        remarks.empty() ? "" : " (" + remarks + ")");
  }
  return text + notes_text(measured.notes);
}

namespace {

sigset_t ours() {
  return signal_set({SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2});
}

// Returns 0, or the errno.
int start(const std::vector<std::string>& words, const sigset_t& mask, pid_t& child) {
  const std::vector<char*> argv = pointers_to(words);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &mask);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int failed = ::posix_spawnp(&child, argv[0], nullptr, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  return failed;
}

std::optional<int> exit_code_of_ended(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, WNOHANG) != child) return std::nullopt;
  return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

ForegroundCommand::ForegroundCommand() {
  // Inherited as "ignored", SIGCHLD would hide the command's end from us.
  ::signal(SIGCHLD, SIG_DFL);
  const sigset_t set = ours();
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
}

ForegroundCommand::~ForegroundCommand() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int ForegroundCommand::run(const std::vector<std::string>& words) const {
  pid_t child = 0;
  if (const int failed = start(words, before_, child); failed != 0) {
    return cannot_run(words[0], failed);
  }
  const sigset_t set = ours();
  for (;;) {
    if (const auto code = exit_code_of_ended(child)) return *code;
    siginfo_t told{};
    const int number = ::sigwaitinfo(&set, &told);
    // A terminal sends its signals to the command as well.
    const bool from_somebody = told.si_code <= 0;
    if (number > 0 && number != SIGCHLD && from_somebody) ::kill(child, number);
  }
}

}  // namespace gpuyard::cli
