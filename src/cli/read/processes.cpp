// gpuyard processes
#include "cli/read/processes.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "base/local_time.h"
#include "base/text.h"
#include "cli/read/source_access.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/output.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {
namespace {

struct ProcessColumn {
  enum Drops : int { never, places, shares, kinds, times };
};

std::string since_text(const protocol::Process& process) {
  return process.started_at ? local_time(*process.started_at, TimeDetail::minute)
                            : std::string(kNothing);
}

// "not known (its process has ended): 7, 8"
Printable notes(const ProcessAnswer& answer, const Screen& screen) {
  std::map<std::string, std::string> pids_by_reason;
  for (const ListedProcess& process : answer.processes) {
    const auto reason = process.missing.find("process");
    if (reason == process.missing.end()) continue;
    std::string& pids = pids_by_reason[reason->second];
    pids += (pids.empty() ? "" : ", ") + std::to_string(process.pid);
  }
  Printable out;
  const auto add = [&](Tone tone, const std::string& text) {
    out += paragraph(screen, tone, text);
  };
  for (const auto& [reason, pids] : pids_by_reason) {
    add(Tone::warning, fmt::format("unknown ({}): {}", reason, pids));
  }
  for (const auto& [gpu, why] : answer.missing) {
    add(Tone::warning, fmt::format("{}: no process list: {}", gpu, describe(why)));
  }
  if (answer.simulated) add(Tone::faint, "These GPUs are simulated.");
  return out;
}

ListedProcess listed(const protocol::Device& device, protocol::ProcessWithArguments process) {
  ListedProcess out{std::move(process), device.index, device.uuid, device.pci_address, {}};
  out.name = program_of(out);
  return out;
}

std::vector<protocol::ProcessWithArguments> processes_of(const protocol::Device& device,
                                                         const DetailsByGpu& in_full) {
  const auto found = in_full.find(device.index);
  if (found != in_full.end() && found->second.processes) return *found->second.processes;
  std::vector<protocol::ProcessWithArguments> processes;
  for (const protocol::Process& process : *device.processes) processes.push_back({process, {}});
  return processes;
}

constexpr std::array<std::string_view, 8> kProcessFields = {
    "timestamp", "gpu_name", "gpu_bus_id",   "gpu_serial",
    "gpu_uuid",  "pid",      "process_name", "used_gpu_memory"};

std::string canonical(const std::string& name) {
  if (name == "name") return "process_name";
  return name == "used_memory" ? "used_gpu_memory" : name;
}

const protocol::Device& device_of(const protocol::Snapshot& snapshot, std::uint32_t index) {
  return *std::ranges::find(snapshot.devices, index, &protocol::Device::index);
}

std::string memory_cell(const ListedProcess& process, bool units) {
  if (!process.memory_bytes) return "[N/A]";
  return fmt::format("{}{}", mebibytes(*process.memory_bytes), units ? " MiB" : "");
}

std::string cell(const std::string& field, const ListedProcess& process, const QueryInput& queried,
                 bool units) {
  if (field == "pid") return std::to_string(process.pid);
  if (field == "used_gpu_memory") return memory_cell(process, units);
  if (field == "process_name") {
    std::string name = process.name.value_or("[Not Found]");
    std::ranges::replace(name, ',', '?');
    return name;
  }
  // Other fields are the GPU's, by the same name.
  const auto of_gpu = parse_field(field);
  return of_gpu ? csv_cell(*of_gpu, queried, device_of(queried.snapshot, process.gpu_index), units)
                : std::string("[N/A]");
}

template <class AnyProcess>
bool matches_user(const AnyProcess& process, const std::string& user) {
  const bool by_number = process.uid && std::to_string(*process.uid) == user;
  return by_number || (process.user && (process.user == user || printable(*process.user) == user));
}

Result<ProcessAnswer> read_processes(Source& source, const ProcessesVerb& verb) {
  const auto snapshot = read_gpus(source, verb.gpus, {Probe::processes}, OwnerLookup::looked_up,
                                  source_words(verb.source));
  if (!snapshot) return snapshot.error();
  auto answer = read_process_answer(source, *snapshot);
  if (answer && !verb.user.empty()) {
    std::erase_if(answer->processes,
                  [&](const ListedProcess& process) { return !matches_user(process, verb.user); });
  }
  return answer;
}

// A missing driver is an answer too: scripts get valid JSON with an empty list.
int print_no_processes(const ProcessesVerb& verb, const Error& error) {
  if (verb.json) {
    ProcessAnswer nothing;
    nothing.taken_at = to_rfc3339(wall_now());
    print(json_line(nothing));
  }
  return print_source_error(error);
}

Printable no_process_text(const std::string& user) {
  return user.empty() ? Printable("No processes.\n")
                      : formatted("No processes of user \"{}\".\n", user);
}

int show_past(const ProcessesVerb& verb) {
  const auto daemon = require_daemon(verb.source.socket, "past processes need");
  if (!daemon) return print_source_error(daemon.error());
  const protocol::ProcessSpansQuery query{
      non_empty(verb.gpus), non_empty(verb.since), non_empty(verb.until), {}};
  auto spans = client::call_with_retry(*daemon, protocol::kProcessSpans, query);
  if (!spans) return print_source_error(spans.error());
  if (!verb.user.empty()) {
    std::erase_if(spans->processes, [&](const protocol::ProcessSpan& span) {
      return !matches_user(span, verb.user);
    });
  }
  print(verb.json ? json_line(*spans)
                  : (spans->processes.empty() ? no_process_text(verb.user) : Printable()) +
                        process_span_table(*spans, Screen::of_stdout(verb.color), wall_now()));
  return 0;
}

}  // namespace

std::string user_text(const protocol::Process& process) {
  if (process.user) return *process.user;
  return process.uid ? std::to_string(*process.uid) : std::string(kNothing);
}

std::string location_text(const protocol::Process& process) {
  if (process.slurm_job) {
    return "slurm " + *process.slurm_job + (process.slurm_step ? "." + *process.slurm_step : "");
  }
  if (process.pod) return "pod " + *process.pod;
  if (process.container) {
    constexpr std::size_t kShortIdLength = 12;  // people use this many characters of an id
    const std::string shown = printable(*process.container).substr(0, kShortIdLength);
    return process.container_runtime.value_or("container") + " " + shown;
  }
  return process.unit ? *process.unit : std::string(kNothing);
}

std::string command_text(const protocol::ProcessWithArguments& process) {
  if (!process.arguments || process.arguments->empty()) {
    return process.command.value_or(std::string(kNothing));
  }
  return fmt::format("{}", fmt::join(*process.arguments, " "));
}

Printable process_table(const ProcessAnswer& answer, const Screen& screen) {
  FittedTable table{{{"GPU", true},
                     {"PID", true},
                     {"USER"},
                     {"KIND", false, ProcessColumn::kinds},
                     {"SM", true, ProcessColumn::shares},
                     {"MEMORY", true},
                     {heading_with_zone("SINCE", wall_now()), false, ProcessColumn::times},
                     {"UNIT, CONTAINER OR JOB", false, ProcessColumn::places},
                     {"COMMAND"}}};
  for (const ListedProcess& process : answer.processes) {
    table.add(
        {{std::to_string(process.gpu_index)},
         {std::to_string(process.pid)},
         {user_text(process)},
         {std::string(enum_name(process.kind))},
         {process.sm_percent ? fmt::format("{} %", *process.sm_percent) : std::string(kNothing)},
         {process.memory_bytes ? bytes_text(*process.memory_bytes) : std::string(kNothing)},
         {since_text(process)},
         {location_text(process)},
         {command_text(process)}});
  }
  return (answer.processes.empty() ? Printable() : table.text(screen)) + notes(answer, screen);
}

std::optional<std::string> program_of(const protocol::ProcessWithArguments& process) {
  if (process.arguments && !process.arguments->empty() && !process.arguments->front().empty()) {
    return process.arguments->front();
  }
  return process.command;
}

ProcessAnswer process_answer(const protocol::Snapshot& snapshot, const DetailsByGpu& in_full) {
  ProcessAnswer answer{{.simulated = snapshot.simulated}, snapshot.taken_at, {}, {}};
  for (const protocol::Device& device : snapshot.devices) {
    if (!device.processes) {
      const auto reason = device.missing.find("processes");
      answer.missing[device.uuid] = reason != device.missing.end()
                                        ? reason->second
                                        : Missing{MissingReason::failed, "unknown"};
      continue;
    }
    for (auto& process : processes_of(device, in_full)) {
      answer.processes.push_back(listed(device, std::move(process)));
    }
  }
  return answer;
}

Result<ProcessAnswer> read_process_answer(Source& source, const protocol::Snapshot& snapshot) {
  DetailsByGpu in_full;
  for (const protocol::Device& device : snapshot.devices) {
    if (!device.processes || device.processes->empty()) continue;
    auto answer = source.processes(device.index);
    if (answer) {
      in_full.emplace(device.index, *std::move(answer));
    } else if (answer.error().code != Errc::not_found) {  // gone since, or an older daemon
      return std::move(answer).error();
    }
  }
  return process_answer(snapshot, in_full);
}

Result<std::vector<std::string>> parse_process_fields(const std::vector<std::string>& names) {
  if (names.empty()) {
    return std::vector<std::string>{"pid", "process_name", "gpu_uuid", "used_gpu_memory"};
  }
  std::vector<std::string> fields;
  for (const std::string& name : split_all(names)) {
    fields.push_back(canonical(name));
    if (std::ranges::find(kProcessFields, fields.back()) != kProcessFields.end()) continue;
    return Error{Errc::invalid, fmt::format("unknown process field \"{}\"; valid fields: {}", name,
                                            fmt::join(kProcessFields, ", "))};
  }
  return fields;
}

Printable process_csv(const std::vector<std::string>& fields, const ProcessAnswer& answer,
                      const QueryInput& queried, CsvStyle style) {
  Printable out;
  if (style.header) {
    std::vector<std::string> names = fields;
    std::ranges::replace(names, std::string("used_gpu_memory"), "used_gpu_memory [MiB]");
    out += formatted("{}\n", fmt::join(names, ", "));
  }
  for (const ListedProcess& process : answer.processes) {
    if (process.kind == ProcessKind::graphics) continue;
    std::vector<std::string> cells;
    for (const auto& field : fields) cells.push_back(cell(field, process, queried, style.units));
    out += formatted("{}\n", fmt::join(cells, ", "));
  }
  return out;
}

Printable process_span_table(const protocol::ProcessSpans& spans, const Screen& screen,
                             WallTime now) {
  FittedTable table{{{"GPU", true},
                     {"PID", true},
                     {"USER"},
                     {"PEAK MEMORY", true, 1},
                     {heading_with_zone("FROM", now)},
                     {heading_with_zone("UNTIL", now)},
                     {"LEASE", false, 2},
                     {"COMMAND"}}};
  const std::string nothing(kNothing);
  for (const protocol::ProcessSpan& span : spans.processes) {
    const std::string uid = span.uid ? std::to_string(*span.uid) : nothing;
    table.add({{span.index ? std::to_string(*span.index) : span.uuid},
               {std::to_string(span.pid)},
               {span.user.value_or(uid)},
               {span.peak_memory_bytes ? bytes_text(*span.peak_memory_bytes) : nothing},
               {local_moment(span.first_seen, now)},
               {span.there ? "now" : local_moment(span.last_seen, now)},
               {span.lease.value_or(nothing)},
               {span.command.value_or(nothing)}});
  }
  Printable out = spans.processes.empty() ? Printable() : table.text(screen);
  if (!spans.complete)
    out += paragraph(screen, Tone::warning, "Only the newest processes are listed.");
  for (const std::string& note : spans.notes) out += paragraph(screen, Tone::warning, note);
  return out;
}

Options add_processes(Options program, ProcessesVerb& verb) {
  const Options processes = program.verb("processes", "List the processes on the GPUs");
  add_source(processes, verb.source);
  add_gpus(processes, verb.gpus, "Only these GPUs: indexes, UUIDs or PCI addresses")
      .default_is("all");
  processes.option("--user", verb.user, "Only processes of this user, by name or UID")
      .metavar("USER");
  const Option since =
      processes
          .option("--since", verb.since,
                  "Include processes that exited after TIME: 2h (ago), 02:10 or 2026-01-31 12:00")
          .metavar("TIME")
          .moment();
  processes.option("--until", verb.until, "End, in the same format")
      .metavar("TIME")
      .default_is("now")
      .needs(since)
      .moment();
  add_json(processes, verb.json);
  add_color(processes, verb.color);
  processes.example("gpuyard processes")
      .example("gpuyard processes --user alice")
      .example("gpuyard processes 0 --since 2h", "Include processes that have exited");
  return processes;
}

int run(const ProcessesVerb& verb) {
  const SourceFlags& source = verb.source;
  if (!verb.since.empty() && (source.local || source.simulate || !source.nvml.empty())) {
    return print_error(
        {Errc::invalid, "--since needs a daemon: the driver keeps no process history"});
  }
  if (!verb.since.empty()) return show_past(verb);
  auto open = open_source(verb.source);
  if (!open) return print_no_processes(verb, open.error());
  const auto answer = read_processes(*open->source, verb);
  if (!answer) return print_no_processes(verb, answer.error());
  const bool nothing = answer->processes.empty() && answer->missing.empty();
  print(verb.json ? json_line(*answer)
                  : (nothing ? no_process_text(verb.user) : Printable()) +
                        process_table(*answer, Screen::of_stdout(verb.color)));
  return 0;
}

}  // namespace gpuyard::cli
