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
#include <fmt/ranges.h>

#include "base/files.h"
#include "base/local_time.h"
#include "base/spawn.h"
#include "cli/lease/lease_text.h"
#include "cli/read/source_access.h"
#include "cli/read/visible_gpus.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/output.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"

namespace gpuyard::cli {
namespace {

// The longest time that the daemon keeps a window, in seconds, even if this process is killed.
constexpr std::int64_t kMaxMeasureSeconds = std::int64_t{30} * 24 * 3600;
constexpr std::size_t kMaxCommandName = 64;

// The command's GPUs: those that the user named, or those that CUDA shows it.
struct CommandGpus {
  std::optional<std::vector<protocol::GpuName>> gpus;  // nothing: all
  std::string note;   // what the user should know about them; empty: nothing
  bool known = true;  // false: it has a GPU, and which one is not known
};

std::optional<std::string> visible_variable() {
  const char* const variable = std::getenv("CUDA_VISIBLE_DEVICES");
  return variable != nullptr ? std::optional<std::string>(variable) : std::nullopt;
}

Result<CommandGpus> visible_command_gpus(const std::string& variable, Source& source) {
  const auto snapshot = source.snapshot({Probe::modes}, OwnerLookup::not_needed);
  if (!snapshot) return snapshot.error();
  std::vector<BoardName> boards;
  for (const protocol::Device& device : snapshot->devices) {
    boards.push_back({device.index, device.uuid,
                      protocol::number_of(device.readings, Metric::mig_mode).value_or(0) != 0});
  }
  VisibleGpus visible = visible_gpus(variable, boards);
  CommandGpus subject{std::vector<protocol::GpuName>(), std::move(visible.note), visible.known};
  for (std::string& uuid : visible.uuids) subject.gpus->push_back({std::move(uuid)});
  return subject;
}

Result<CommandGpus> command_gpus_of(const EnergyVerb& verb, Source& source) {
  const auto variable = visible_variable();
  if (verb.gpus.empty()) return variable ? visible_command_gpus(*variable, source) : CommandGpus();
  CommandGpus subject{std::vector<protocol::GpuName>(), "", true};
  for (std::string& name : split(verb.gpus, ',')) subject.gpus->push_back({std::move(name)});
  return subject;
}

// A job without GPUs runs its command also where there is neither a daemon nor a driver.
std::optional<std::string> no_gpu_reason(const EnergyVerb& verb) {
  const auto variable = visible_variable();
  if (!verb.gpus.empty() || !variable || !is_without_gpus(*variable)) return std::nullopt;
  return visible_gpus(*variable, {}).note;
}

// Leaves out the command's arguments: their words are private to the user.
std::string program_of(const std::string& command) {
  return command.substr(command.rfind('/') + 1).substr(0, kMaxCommandName);
}

// The command's GPUs, and the measurement of them; null: there are none, or they are not known.
struct BegunMeasurement {
  CommandGpus subject;
  std::unique_ptr<SourceMeasurement> measurement;
};

Result<BegunMeasurement> begin_measurement(const EnergyVerb& verb, Source& source) {
  auto subject = command_gpus_of(verb, source);
  if (!subject) return subject.error();
  if (subject->gpus && subject->gpus->empty())
    return BegunMeasurement{*std::move(subject), nullptr};
  auto measurement =
      source.begin_measurement({subject->gpus, program_of(verb.command[0]), kMaxMeasureSeconds});
  if (!measurement) return std::move(measurement).error();
  return BegunMeasurement{*std::move(subject), *std::move(measurement)};
}

// Opened before the command runs: a missing directory is reported now, not after hours.
Result<UniqueFd> open_report(const std::string& path) {
  if (path.empty()) return UniqueFd();
  if (path == "-") return UniqueFd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) return system_error("opening " + path);
  return file;
}

void print_measurement(const EnergyVerb& verb, const MeasuredCommand& measured,
                       const UniqueFd& report) {
  const Printable text = json_line(measured);
  if (report) {
    if (const auto written = write_all(report, "the report", text); !written) {
      static_cast<void>(print_error(Error(written.error()).in(verb.report)));
    }
  }
  print_stderr(verb.json ? text : energy_summary(measured));
}

// Runs the command, and returns what is known of it without any measurement.
MeasuredCommand run_measured(const EnergyVerb& verb, const ForegroundCommand& foreground) {
  MeasuredCommand measured;
  measured.command = verb.command;
  const TimePoint began = BootClock::now();
  measured.exit_code = foreground.run(verb.command);
  measured.seconds = to_seconds(BootClock::now() - began);
  return measured;
}

int run_without_gpu(const EnergyVerb& verb, const ForegroundCommand& foreground,
                    const UniqueFd& report, const std::string& note) {
  MeasuredCommand measured = run_measured(verb, foreground);
  measured.joules = 0;
  measured.notes = {note + ", so it used no GPU energy"};
  print_measurement(verb, measured, report);
  return measured.exit_code;
}

// Adds what was measured, or why nothing was.
void add_window(MeasuredCommand& measured, const BegunMeasurement& begun) {
  const auto window = begun.measurement != nullptr
                          ? begun.measurement->finish()
                          : Error{Errc::not_found, begun.subject.note + "; name it with --gpu"};
  if (!window) {
    measured.notes = {"its energy use is unknown: " + window.error().text()};
    return;
  }
  measured.simulated = window->simulated;
  measured.joules = window->joules;
  measured.gpus = window->gpus;
  measured.notes = window->notes;
  measured.partial = window->partial.value_or(false);
  if (!begun.subject.note.empty()) measured.notes.push_back(begun.subject.note);
}

int measure(const EnergyVerb& verb) {
  const ForegroundCommand foreground;  // before any thread
  const auto report = open_report(verb.report);
  if (!report) return print_error(report.error());
  if (const auto note = no_gpu_reason(verb))
    return run_without_gpu(verb, foreground, *report, *note);
  auto open = open_source(verb.source);
  if (!open) return print_source_error(open.error());
  const auto begun = begin_measurement(verb, *open->source);
  if (!begun) return print_source_error(begun.error());
  if (begun->measurement == nullptr && begun->subject.known) {
    return run_without_gpu(verb, foreground, *report, begun->subject.note);
  }
  // The command's exit code counts, even if its energy is not known.
  MeasuredCommand measured = run_measured(verb, foreground);
  add_window(measured, *begun);
  print_measurement(verb, measured, *report);
  return measured.exit_code;
}

int show(const EnergyVerb& verb) {
  auto open = open_source(verb.source);
  if (!open) return print_source_error(open.error());
  const auto report = open->source->energy();
  if (!report) return print_error(report.error());
  print(verb.json ? json_line(*report) : energy_table(*report));
  return 0;
}

std::string watts_text(const std::optional<double>& watts) {
  return watts ? fmt::format("{:.0f} W", *watts) : std::string(kNothing);
}

void append_remark(std::string& to, bool applies, std::string_view what) {
  if (!applies) return;
  if (!to.empty()) to += ", ";
  to += what;
}

std::string window_remarks(const protocol::WindowGpu& gpu) {
  // In seconds: readings lag behind the edges by their own duration anyway.
  constexpr double kMinUnknownSeconds = 1;
  std::string text;
  append_remark(text, gpu.estimated, "estimated");
  append_remark(text, gpu.interrupted, "interrupted by a reset");
  append_remark(text, gpu.unknown_seconds >= kMinUnknownSeconds,
                fmt::format("{:.0f} s not measured", gpu.unknown_seconds));
  append_remark(text, gpu.age_seconds >= kMinUnknownSeconds,
                fmt::format("no reading for {:.0f} s", gpu.age_seconds));
  return text;
}

// A sum that lacks a part says so.
std::string sum_text(const std::optional<double>& joules, bool partial) {
  if (!joules) return "energy unknown";
  return (partial ? "at least " : "") + joules_text(*joules);
}

std::string watts_of(const std::string& what, const std::optional<double>& watts) {
  return fmt::format(", {} {}", what, watts_text(watts));
}

Printable notes_text(const std::vector<std::string>& notes) {
  Printable text;
  for (const std::string& note : notes) text += formatted("{}\n", note);
  return text;
}

sigset_t handled_signals() {
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
  return WIFSIGNALED(status) ? kExitSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Options add_energy(Options program, EnergyVerb& verb) {
  const Options energy =
      program.verb("energy", "Show the energy use of GPUs, or measure a command");
  energy
      .explain(
          "Without a command, shows the energy that each GPU has used. With one, runs it and "
          "shows the energy that its GPUs used while it ran; the exit code is that of the "
          "command.")
      .usage({"gpuyard energy [OPTIONS]\tShow the energy used so far",
              "gpuyard energy [OPTIONS] -- COMMAND [ARG...]\tMeasure a command"});
  add_source(energy, verb.source);
  const Option command = energy.command(verb.command, "Command to run and measure, after --");
  const Options measured = energy.heading("Measurement");
  add_gpus_option(measured, verb.gpus, "GPUs to measure: indexes, UUIDs or PCI addresses")
      .default_is("CUDA_VISIBLE_DEVICES, or all")
      .needs(command);
  measured.option("--report", verb.report, "Write the measurement as JSON to FILE, or - for stdout")
      .metavar("FILE")
      .needs(command);
  energy.flag("--json", verb.json, "Print JSON; for a measured command, on stderr");
  energy.example("gpuyard energy")
      .example("gpuyard energy -- python train.py")
      .example("gpuyard energy --gpu 0 --report energy.json -- ./bench.sh");
  return energy;
}

int run(const EnergyVerb& verb) {
  return verb.command.empty() ? show(verb) : measure(verb);
}

Printable energy_table(const protocol::EnergyReport& report) {
  FittedTable table{{{"GPU", true},
                     {"ENERGY", true},
                     {"CURRENT EPOCH", true},
                     {"WHILE DAEMON DOWN", true},
                     {heading_with_zone("SINCE", wall_now())},
                     {"UUID"},
                     {"REMARKS"}}};
  const auto joules = [](const std::optional<double>& value) {
    return value ? joules_text(*value) : std::string(kNothing);
  };
  for (const protocol::GpuEnergy& gpu : report.gpus) {
    std::string remarks;
    const std::string first = gpu.since.value_or(std::string(kNothing));
    const auto since = from_rfc3339(first);
    append_remark(remarks, gpu.estimate.has_value(), protocol::text_of(gpu.estimate));
    append_remark(remarks, !gpu.index, "not present");
    append_remark(remarks, gpu.estimated, "estimated");
    append_remark(remarks, gpu.epoch && gpu.epoch->number > 1,
                  fmt::format("epoch {}", gpu.epoch ? gpu.epoch->number : 1));
    append_remark(remarks, gpu.unknown_seconds >= 1,
                  fmt::format("{:.0f} s not fully measured", gpu.unknown_seconds));
    append_remark(remarks, gpu.index && gpu.why, "cannot be read now: " + gpu.why.value_or(""));
    table.add(
        {{index_text(gpu.index)},
         {joules(gpu.joules)},
         {joules(gpu.epoch ? std::optional(gpu.epoch->joules) : std::nullopt)},
         {joules(gpu.accounts ? std::optional(gpu.accounts->daemon_down_joules) : std::nullopt)},
         {since ? local_time(*since, TimeDetail::minute) : first},
         {gpu.uuid},
         {remarks}});
  }
  const std::string estimate = report.estimate ? ", " + protocol::text_of(report.estimate) : "";
  const std::string all = report.joules
                              ? fmt::format("Total: {} ({:.3f} kWh{}).",
                                            sum_text(report.joules, report.partial.value_or(false)),
                                            *report.joules / protocol::kJoulesPerKwh, estimate)
                              : std::string("Total: unknown.");
  return formatted("{}{}\n{}{}", table.text(Screen{}), all,
                   report.simulated ? Printable("These GPUs are simulated.\n") : "",
                   notes_text(report.notes));
}

Printable energy_summary(const MeasuredCommand& measured) {
  if (measured.gpus.empty()) {
    return "gpuyard: " + notes_text(measured.notes);
  }
  // The sum of the GPUs' means, if each has one.
  std::optional<double> mean = 0;
  for (const protocol::WindowGpu& gpu : measured.gpus) {
    mean = mean && gpu.mean_w ? std::optional(*mean + *gpu.mean_w) : std::nullopt;
  }
  Printable text =
      formatted("gpuyard: {} in {:.1f} s{}\n", sum_text(measured.joules, measured.partial),
                measured.seconds, measured.joules ? watts_of("mean", mean) : "");
  for (const protocol::WindowGpu& gpu : measured.gpus) {
    const std::string remarks = window_remarks(gpu);
    text += formatted("  GPU {}: {}{}{}{}\n", index_text(gpu.index),
                      gpu.joules ? joules_text(*gpu.joules) : "energy unknown",
                      gpu.joules ? watts_of("mean", gpu.mean_w) : "",
                      gpu.joules || gpu.peak_w ? watts_of("peak", gpu.peak_w) : "",
                      remarks.empty() ? "" : " (" + remarks + ")");
  }
  return text + notes_text(measured.notes);
}

ForegroundCommand::ForegroundCommand() {
  // Inherited as "ignored", SIGCHLD would hide the command's end from us.
  ::signal(SIGCHLD, SIG_DFL);
  const sigset_t set = handled_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, &original_mask_);
}

ForegroundCommand::~ForegroundCommand() {
  ::pthread_sigmask(SIG_SETMASK, &original_mask_, nullptr);
}

int ForegroundCommand::run(const std::vector<std::string>& words) const {
  pid_t child = 0;
  if (const int failed = start(words, original_mask_, child); failed != 0) {
    return print_exec_error(words[0], failed);
  }
  const sigset_t set = handled_signals();
  for (;;) {
    if (const auto code = exit_code_of_ended(child)) return *code;
    siginfo_t info{};
    const int number = ::sigwaitinfo(&set, &info);
    // A terminal sends its signals to the command as well.
    const bool from_process = info.si_code <= 0;
    if (number > 0 && number != SIGCHLD && from_process) ::kill(child, number);
  }
}

}  // namespace gpuyard::cli
