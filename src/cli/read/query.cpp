// gpuyard query
#include "cli/read/query.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "base/json_writer.h"
#include "base/try.h"
#include "cli/read/gpu_filter.h"
#include "cli/read/processes.h"
#include "cli/read/query_csv.h"
#include "cli/read/source_access.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/live_screen.h"
#include "cli/screen/output.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {
namespace {

// A query as it was understood, before the daemon or driver is asked.
struct Query {
  QueryFormat format;
  std::vector<Field> fields;
  std::vector<std::string> process_fields;
  Filter where;
  ProbeSet wanted;
};

void add_filter_probes(Query& query) {
  if (!query.where.empty()) query.wanted = query.wanted | probes_of_filter();
}

Result<Query> parse_query(const QueryVerb& verb) {
  Query query;
  auto format = GPUYARD_TRY(parse_query_format(verb.format));
  query.format = format;
  auto where = Filter::parse(verb.where, kGpuFields, kGpuNumbers);
  if (!where) return std::move(where).error().in("--where");
  query.where = *std::move(where);
  if (std::ranges::count(split_all(verb.fields), "") > 0) {
    return Error{Errc::invalid, "--fields: empty field name"};
  }
  if (verb.action == QueryVerb::Action::processes) {
    query.process_fields = GPUYARD_TRY(parse_process_fields(verb.fields));
    query.wanted = {Probe::processes, Probe::inventory};
    add_filter_probes(query);
    return query;
  }
  if (verb.fields.empty()) {
    return Error{Errc::invalid, "no fields given", "",
                 "gpuyard query --fields name,memory.used\n"
                 "gpuyard query --list  # lists all fields"};
  }
  auto fields = GPUYARD_TRY(parse_fields(verb.fields));
  query.fields = std::move(fields);
  query.wanted = probes_of_fields(query.fields);
  add_filter_probes(query);
  return query;
}

// Takes out the GPUs that the filter does not let pass.
Result<void> apply_filter(protocol::Snapshot& snapshot, const Filter& where, const Source& source) {
  if (where.empty()) return {};
  std::optional<protocol::Leases> leases;
  if (const http::Endpoint* const daemon = source.daemon()) {
    leases = GPUYARD_TRY(client::call_with_retry(*daemon, protocol::kLeases));
  }
  std::erase_if(snapshot.devices, [&](const protocol::Device& device) {
    return !where.matches(filter_values(device, leases ? &*leases : nullptr));
  });
  return {};
}

Result<Printable> run_query(Source& source, const QueryVerb& verb, const Query& query, bool first) {
  const bool list_processes = verb.action == QueryVerb::Action::processes;
  const auto owners = list_processes ? OwnerLookup::looked_up : OwnerLookup::not_needed;
  auto snapshot =
      GPUYARD_TRY(read_gpus(source, verb.gpus, query.wanted, owners, source_words(verb.source)));
  GPUYARD_TRY(apply_filter(snapshot, query.where, source));
  const QueryInput queried{std::move(snapshot)};
  CsvStyle csv = query.format.csv;
  csv.header = csv.header && first;
  if (list_processes) {
    const auto answer = GPUYARD_TRY(read_process_answer(source, queried.snapshot));
    return query.format.json ? json_line(answer)
                             : process_csv(query.process_fields, answer, queried, csv);
  }
  return query.format.json ? json_line(query_answer(query.fields, queried))
                           : query_csv(query.fields, queried, csv);
}

// A row is named by its own JSON key, which contains the unit.
std::string json_name(const Field& field) {
  return field.what == Field::ValueKind::row ? json_key(row_of(field.metric)) : field.name;
}

int list_fields() {
  FittedTable table{{{"FIELD"}, {"JSON KEY"}, {"UNIT"}, {"DESCRIPTION"}}};
  for (const Field& field : known_fields()) {
    if (field.what == Field::ValueKind::unmeasured) continue;
    table.add({{field.name},
               {json_name(field)},
               {std::string(unit_of(field))},
               {std::string(help_of(field))}});
  }
  print(table.text(Screen{}));
  return 0;
}

// Repeats the query at the interval until a signal or an error ends it.
int repeat(const QueryVerb& verb, const Query& query, Duration interval) {
  SignalWaiter signals;  // before the driver's threads
  auto open = open_source(verb.source);
  if (!open) return print_source_error(open.error());
  TimePoint next = BootClock::now();
  for (std::uint64_t answered = 0;;) {
    const auto answer = run_query(*open->source, verb, query, answered == 0);
    if (!answer) return print_source_error(answer.error());
    print(*answer);
    if (++answered == verb.count) return 0;
    next = std::max(next + interval, BootClock::now());
    if (!wait_for_tick(signals, next)) return 0;
  }
}

}  // namespace

Options add_query(Options program, QueryVerb& verb) {
  using enum QueryVerb::Action;
  const Options query = program.verb("query", "Print selected fields as CSV or JSON, for scripts");
  add_source(query, verb.source);
  const Options selection = query.heading("Selection");
  selection
      .option("--fields", verb.fields,
              "Comma-separated fields: nvidia-smi names or gpuyard JSON keys")
      .metavar("NAME,...");
  add_gpus(selection, verb.gpus, "Only these GPUs: indexes, UUIDs or PCI addresses")
      .default_is("all");
  selection
      .option("--where", verb.where, "Only GPUs that match a filter, e.g. 'temp>80 & user==alice'")
      .metavar("FILTER");
  const Option who = selection.flag("--processes", verb.action, processes,
                                    "List compute processes instead of GPUs");
  selection.flag("--list", verb.action, list, "List all fields").excludes(who);
  const Options output = query.heading("Output");
  const Option format =
      output.option("--format", verb.format, "Output format: csv[,noheader][,nounits] or json")
          .metavar("NAME,...")
          .default_is("csv");
  output.flag("--json", verb.format, "json", "Same as --format json").excludes(format);
  const Option interval =
      output.option("--interval", verb.interval, "Repeat at this interval, e.g. 500ms, 2s or 1m")
          .metavar("DURATION");
  output.option("--count", verb.count, "Stop after N samples")
      .metavar("N")
      .positive()
      .needs(interval);
  query.example("gpuyard query --fields name,memory.used,power.draw")
      .example("gpuyard query --fields index,power.draw --format csv,noheader --interval 2s")
      .example("gpuyard query --fields name --where 'temp>80 & user==alice'")
      .example("gpuyard query --list");
  return query;
}

int run(const QueryVerb& verb) {
  if (verb.action == QueryVerb::Action::list) return list_fields();
  const auto query = parse_query(verb);
  if (!query) return print_error(query.error());
  if (!verb.interval.empty()) {
    const auto interval = parse_interval(verb.interval);
    if (interval) return repeat(verb, *query, *interval);
    return print_error(Error(interval.error()).in("--interval"));
  }
  auto open = open_source(verb.source);
  if (!open) return print_source_error(open.error());
  const auto answer = run_query(*open->source, verb, *query, true);
  if (!answer) return print_source_error(answer.error());
  print(*answer);
  return 0;
}

Result<QueryFormat> parse_query_format(const std::string& text) {
  const auto words = split(text, ',');
  if (words == std::vector<std::string>{"json"}) return QueryFormat{true, {}};
  constexpr std::array<std::string_view, 3> kOfCsv = {"csv", "noheader", "nounits"};
  for (const std::string& word : words) {
    if (std::ranges::find(kOfCsv, word) != kOfCsv.end()) continue;
    return Error{
        Errc::invalid,
        fmt::format(
            "--format: expected json, or csv with optional noheader and nounits; got \"{}\"",
            word)};
  }
  const auto has = [&](std::string_view word) { return std::ranges::count(words, word) > 0; };
  if (!has("csv")) {
    return Error{Errc::invalid,
                 "--format: expected json, or csv with optional noheader and nounits"};
  }
  return QueryFormat{false, {!has("noheader"), !has("nounits")}};
}

using protocol::Device;
using ValueKind = Field::ValueKind;

void put_json(std::string& out, const Values& values) {
  char separator = '{';
  for (const auto& [name, value] : values.by_name) {
    out += std::exchange(separator, ',');
    json::put_string(out, name);
    out += ':';
    out += value;
  }
  if (separator == '{') out += '{';
  out += '}';
}

void schema_of(std::type_identity<Values>, boost::json::object& out) {
  out = {{"type", "object"},
         {"additionalProperties",
          {{"type", {"string", "number", "boolean", "array", "object", "null"}}}}};
}

namespace {

boost::json::value json_value(const Field& field, const QueryInput& queried, const Device& device,
                              const boost::json::object& readings) {
  const bool reading =
      field.what <= ValueKind::word && row_of(field.metric).subject == MetricSubject::device;
  if (!reading) {
    if (field.what == ValueKind::index) return device.index;
    if (field.what == ValueKind::count) return queried.gpu_count;
    const std::string text = csv_cell(field, queried, device, false);
    return text.starts_with('[') ? boost::json::value(nullptr) : boost::json::value(text);
  }
  if (field.what == ValueKind::row) return readings.at(json_key(row_of(field.metric)));
  const auto* number = device.readings.number(field.metric, field.of);
  if (!number) return nullptr;
  if (field.what == ValueKind::word) return (*number & field.bit) != 0;
  return *number;
}

std::string text_of(const boost::json::value& value) {
  return value.is_double() ? json::to_json(value.get_double()) : boost::json::serialize(value);
}

std::string missing_reason(const Field& field, const Device& device) {
  if (field.what == ValueKind::unmeasured) return "not measured by gpuyard";
  const Missing* why = field.what <= ValueKind::word ? reason_of(field, device) : nullptr;
  return why == nullptr ? "unknown" : describe(*why);
}

// A field that the user names twice appears once.
void put(Values& values, const std::string& name, std::string text) {
  auto& all = values.by_name;
  const auto same = std::ranges::find(all, name, &std::pair<std::string, std::string>::first);
  if (same != all.end()) {
    same->second = std::move(text);
  } else {
    all.emplace_back(name, std::move(text));
  }
}

}  // namespace

QueryAnswer query_answer(const std::vector<Field>& fields, const QueryInput& queried) {
  const protocol::Snapshot& snapshot = queried.snapshot;
  QueryAnswer answer{{.simulated = snapshot.simulated}, snapshot.taken_at, {}};
  for (const Device& device : snapshot.devices) {
    QueriedDevice out{
        device.index, device.uuid, device.pci_address, device.condition, device.why, device.age_ms,
        {},           {}};
    const auto readings = readings_as_json(device);
    for (const Field& field : fields) {
      const std::string name = json_name(field);
      auto value = json_value(field, queried, device, readings);
      if (value.is_null()) {
        out.missing[name] = missing_reason(field, device);
      }
      put(out.values, name, text_of(value));
    }
    answer.devices.push_back(std::move(out));
  }
  return answer;
}

}  // namespace gpuyard::cli
