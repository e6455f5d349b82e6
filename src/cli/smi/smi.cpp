// gpuyard smi, for scripts that run nvidia-smi: the same words and the same output.
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "base/files.h"
#include "base/try.h"
#include "cli/read/processes.h"
#include "cli/read/query.h"
#include "cli/read/source_access.h"
#include "cli/screen/live_screen.h"
#include "cli/screen/output.h"
#include "cli/shared_options.h"
#include "cli/smi/smi_details.h"
#include "cli/smi/smi_help.h"
#include "cli/smi/smi_report.h"
#include "cli/smi/smi_table.h"
#include "gpu/device/error.h"

namespace gpuyard::cli {
namespace {

using SmiAction = SmiVerb::Action;

// The parsed options: the fields to print, and the probes that they need.
struct SmiRequest {
  QueryFormat format;
  std::vector<Field> fields;
  std::vector<std::string> process_fields;
  ProbeSet wanted;
  bool with_processes = false;
};

// The fields of --query-remapped-rows. Its header has gpu_name where that of --query-gpu has name.
Result<std::vector<Field>> parse_row_fields(const std::vector<std::string>& names) {
  std::vector<Field> fields;
  const auto known = smi_row_fields();
  for (const std::string& name : split_all(names)) {
    if (std::ranges::find(known, name) == known.end()) {
      return Error{Errc::invalid, unknown_word("field", name, {known.begin(), known.end()}), "",
                   "gpuyard smi --help-query-remapped-rows"};
    }
    auto field = GPUYARD_TRY(parse_field(name));
    field.name = name;
    fields.push_back(std::move(field));
  }
  return fields;
}

Result<SmiRequest> parse_request(const SmiVerb& verb) {
  SmiRequest request;
  const auto format = GPUYARD_TRY(parse_query_format(verb.format));
  request.format = format;
  GPUYARD_TRY(check_smi_sections(verb.display));
  if (std::ranges::count(split_all(verb.fields), "") > 0) {
    return Error{Errc::invalid, "--query-gpu: empty field name"};
  }
  switch (verb.action) {
    case SmiAction::summary:
      request.wanted = smi_table_probes();
      request.with_processes = true;
      break;
    case SmiAction::details:
      request.wanted = smi_details_probes();
      request.with_processes = true;
      break;
    case SmiAction::processes:
      request.process_fields = GPUYARD_TRY(parse_process_fields(verb.fields));
      request.wanted = {Probe::processes, Probe::inventory};
      request.with_processes = true;
      break;
    case SmiAction::remapped_rows:
      request.fields = GPUYARD_TRY(parse_row_fields(verb.fields));
      request.wanted = probes_of_fields(request.fields);
      break;
    default:
      request.fields = GPUYARD_TRY(parse_fields(verb.fields));
      request.wanted = probes_of_fields(request.fields);
  }
  return request;
}

Result<SmiReport> read_report(Source& source, const SmiVerb& verb, const SmiRequest& request) {
  const auto owners = request.with_processes ? OwnerLookup::looked_up : OwnerLookup::not_needed;
  const std::string words = source_words(verb.source);
  auto snapshot = GPUYARD_TRY(read_gpus(source, "", request.wanted, owners, words));
  const std::size_t count = snapshot.devices.size();
  if (!verb.gpus.empty()) GPUYARD_TRY(keep_only(snapshot, verb.gpus, words));
  SmiReport report{{std::move(snapshot), count}, {}, wall_now()};
  if (request.with_processes) {
    report.processes = GPUYARD_TRY(read_process_answer(source, report.queried.snapshot));
  }
  return report;
}

Printable inventory_text(const protocol::Snapshot& snapshot) {
  Printable text;
  for (const protocol::Device& device : snapshot.devices) {
    text += formatted("GPU {}: {} (UUID: {})\n", device.index, device.name, device.uuid);
  }
  return text;
}

Printable version_text(const protocol::DriverInfo& driver) {
  const std::string version = driver.driver_version.value_or("N/A");
  return formatted(
      "NVIDIA-SMI version  : {}\nNVML version        : {}\nDRIVER version      : {}\n"
      "CUDA Version        : {}\n",
      version, driver.nvml_version.value_or("N/A"), version,
      driver.cuda_driver_version.value_or("N/A"));
}

Printable query_text(const SmiVerb& verb, const SmiRequest& request, const SmiReport& report,
                     bool first) {
  CsvStyle csv = request.format.csv;
  csv.header = csv.header && first;
  if (verb.action == SmiAction::processes) {
    return request.format.json
               ? json_line(report.processes)
               : process_csv(request.process_fields, report.processes, report.queried, csv);
  }
  return request.format.json ? json_line(query_answer(request.fields, report.queried))
                             : query_csv(request.fields, report.queried, csv);
}

Printable text_of(const SmiVerb& verb, const SmiRequest& request, const SmiReport& report,
                  bool first) {
  switch (verb.action) {
    case SmiAction::summary:
      return smi_table(report);
    case SmiAction::inventory:
      return inventory_text(report.queried.snapshot);
    case SmiAction::details:
      return verb.xml ? smi_details_xml(report) : smi_details_text(report, verb.display);
    case SmiAction::version:
      return version_text(report.queried.snapshot.driver);
    default:
      return query_text(verb, request, report, first);
  }
}

// Standard output, or the file of -f, which is emptied first.
class SmiOutput {
 public:
  static Result<SmiOutput> open(const std::string& file) {
    SmiOutput output;
    if (file.empty()) return output;
    constexpr mode_t kMode = 0644;
    output.name_ = file;
    output.file_ =
        UniqueFd(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_CLOEXEC, kMode));
    if (!output.file_) return system_error("opening " + file);
    return output;
  }
  Result<void> write(const Printable& text) const {
    if (file_) return write_all(file_, name_, text);
    print(text);
    return {};
  }

 private:
  UniqueFd file_;
  std::string name_;
};

// nvidia-smi's exit code for a lost GPU.
constexpr int kLost = 15;

// nvidia-smi's exit codes where they are not ours.
int nvidia_code_of(const Error& error) {
  constexpr int kNoDriver = 9;
  constexpr int kNoLibrary = 12;
  constexpr int kOther = 255;
  switch (error.code) {
    case Errc::invalid:
    case Errc::unsupported:
    case Errc::denied:
    case Errc::not_found:
      return exit_code_of(error.code);
    case Errc::device_lost:
      return kLost;
    default:
      break;
  }
  if (!is_driver_error(error)) return kOther;
  return is_library_error(init_failure_reason(error)) ? kNoLibrary : kNoDriver;
}

// nvidia-smi's exit code of what it printed: the worst state of a GPU.
int nvidia_code_of(const protocol::Snapshot& snapshot) {
  constexpr int kCorruptInforom = 14;
  int code = 0;
  for (const protocol::Device& device : snapshot.devices) {
    for (const auto& [key, why] : device.missing) {
      if (why.detail == "GPU is lost") code = kLost;
      if (why.detail == "Corrupted infoROM") code = std::max(code, kCorruptInforom);
    }
  }
  return code;
}

int fail(const SmiVerb& verb, const Error& error) {
  const int code = print_source_error(error);
  return verb.nvidia_exit_codes ? nvidia_code_of(error) : code;
}

// Prints once, or again and again until a signal or an error ends it.
int answer(const SmiVerb& verb, const SmiRequest& request, std::optional<Duration> interval) {
  std::optional<SignalWaiter> signals;  // before the driver's threads
  if (interval) signals.emplace();
  const auto output = SmiOutput::open(verb.file);
  if (!output) return fail(verb, output.error());
  auto open = open_source(verb.source);
  if (!open) return fail(verb, open.error());
  TimePoint next = BootClock::now();
  for (bool first = true;; first = false) {
    const auto report = read_report(*open->source, verb, request);
    if (!report) return fail(verb, report.error());
    const auto written = output->write(text_of(verb, request, *report, first));
    if (!written) return fail(verb, written.error());
    if (!interval) return verb.nvidia_exit_codes ? nvidia_code_of(report->queried.snapshot) : 0;
    next = std::max(next + *interval, BootClock::now());
    if (!wait_for_tick(*signals, next)) return 0;
  }
}

std::optional<Printable> help_text(SmiAction action) {
  switch (action) {
    case SmiAction::gpu_fields:
      return smi_gpu_field_help();
    case SmiAction::process_fields:
      return smi_process_field_help();
    case SmiAction::row_fields:
      return smi_row_field_help();
    default:
      return std::nullopt;
  }
}

// Adds the options that say what is printed, of which one may be given.
void add_actions(Options smi, SmiVerb& verb) {
  const Options output = smi.heading("Output");
  const auto query = [&](const char* name, SmiAction action, const char* help) {
    return output.option(name, verb.fields, help).metavar("NAME,...").sets(verb.action, action);
  };
  const std::array actions = {
      output.flag("-L,--list-gpus", verb.action, SmiAction::inventory, "List the GPUs"),
      output.flag("-q,--query", verb.action, SmiAction::details, "Show all values of each GPU"),
      query("--query-gpu", SmiAction::gpus, "Comma-separated GPU fields to query"),
      query("--query-compute-apps", SmiAction::processes,
            "Comma-separated compute process fields to query"),
      query("--query-remapped-rows", SmiAction::remapped_rows,
            "Comma-separated fields of remapped memory rows to query"),
      output.flag("--help-query-gpu", verb.action, SmiAction::gpu_fields, "List all GPU fields"),
      output.flag("--help-query-compute-apps", verb.action, SmiAction::process_fields,
                  "List all compute process fields"),
      output.flag("--help-query-remapped-rows", verb.action, SmiAction::row_fields,
                  "List all fields of remapped memory rows"),
      output.flag("--version", verb.action, SmiAction::version, "Show the versions of the driver"),
  };
  for (auto one = actions.begin(); one != actions.end(); ++one) {
    for (auto other = std::next(one); other != actions.end(); ++other) one->excludes(*other);
  }
  const Option details = actions[1];
  const Option xml = output.flag("-x,--xml-format", verb.xml, "Show them as XML").needs(details);
  output.option("-d,--display", verb.display, "Show only these sections, e.g. MEMORY,POWER")
      .metavar("NAME,...")
      .needs(details)
      .excludes(xml);
  output.option("--format", verb.format, "Output format: csv[,noheader][,nounits]")
      .metavar("NAME,...")
      .default_is("csv");
  output.option("-f,--filename", verb.file, "Write to this file").metavar("FILE");
}

}  // namespace

Options add_smi(Options program, SmiVerb& verb) {
  const Options smi = program.verb("smi", "Print what nvidia-smi prints, for scripts that run it");
  add_source(smi, verb.source);
  smi.explain(
      "Takes the options of nvidia-smi that read, and prints in its formats; without an option, "
      "its table. Refuses options that change a GPU, with the gpuyard command that does it.");
  smi.list("-i,--id", verb.gpus, "Only these GPUs: indexes, UUIDs or PCI addresses")
      .metavar("GPU,...")
      .default_is("all")
      .formerly("--gpus");
  const Option every =
      smi.option("-l,--loop", verb.interval, "Repeat every N seconds").metavar("N");
  smi.option("--loop-ms", verb.interval, "Repeat every N milliseconds; also -lms N")
      .metavar("N")
      .unit("ms")
      .excludes(every);
  smi.flag("--nvidia-exit-codes", verb.nvidia_exit_codes,
           "Exit with nvidia-smi's codes, as under its name");
  add_actions(smi, verb);
  return smi.example("gpuyard smi")
      .example("gpuyard smi -q -x -i 0")
      .example("gpuyard smi --query-gpu=name,power.draw --format=csv,noheader")
      .example("gpuyard smi --query-compute-apps=pid,used_memory --format=csv");
}

int run(const SmiVerb& verb) {
  if (const auto help = help_text(verb.action)) {
    const auto output = SmiOutput::open(verb.file);
    return output ? report_result(output->write(*help)) : fail(verb, output.error());
  }
  const auto request = parse_request(verb);
  if (!request) return fail(verb, request.error());
  std::optional<Duration> interval;
  if (!verb.interval.empty()) {
    constexpr Duration kShortest = std::chrono::milliseconds(10);
    const auto parsed = parse_interval(verb.interval, kShortest);
    if (!parsed) return fail(verb, Error(parsed.error()).in("--loop"));
    interval = *parsed;
  }
  return answer(verb, *request, interval);
}

}  // namespace gpuyard::cli
