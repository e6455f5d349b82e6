// gpuyard schema: what `--json` prints, as JSON Schema, written from the records themselves.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cli/answers.h"
#include "cli/config_json.h"
#include "cli/history_table.h"
#include "cli/options.h"
#include "cli/pretty_json.h"
#include "cli/process_answer.h"
#include "cli/query_answer.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "protocol/alerts.h"
#include "protocol/control.h"
#include "protocol/leases.h"
#include "sim/world_status.h"

namespace gpuyard::cli {
namespace {

struct Schema {
  std::string_view name;
  std::string_view describes;
  boost::json::object (*make)();
};

constexpr std::array kSchemas = {
    Schema{"alert", "gpuyard alerts ack --json", json::schema<protocol::AlertAnswer>},
    Schema{"alert-history", "gpuyard alerts history --json", json::schema<protocol::AlertHistory>},
    Schema{"alerts", "gpuyard alerts --json", json::schema<protocol::Alerts>},
    Schema{"audit", "gpuyard audit --json", json::schema<protocol::Audit>},
    Schema{"changes", "gpuyard power, clocks, ... --json, when something is changed",
           json::schema<protocol::Changes>},
    Schema{"config", "gpuyard config print --json", config_schema},
    Schema{"cordon", "gpuyard cordon, uncordon --json", json::schema<protocol::Cordoned>},
    Schema{"devices", "gpuyard devices --json; a line of gpuyard watch --json",
           json::schema<protocol::Snapshot>},
    Schema{"doctor", "gpuyard doctor --json", json::schema<DoctorAnswer>},
    Schema{"driver", "gpuyard driver --json", json::schema<DriverAnswer>},
    Schema{"energy", "gpuyard energy --json", json::schema<protocol::EnergyReport>},
    Schema{"energy-command", "gpuyard energy --json -- COMMAND; what --report writes",
           json::schema<MeasuredCommand>},
    Schema{"events", "a line of gpuyard events --json", json::schema<EventAnswer>},
    Schema{"history", "gpuyard history --json", json::schema<HistoryAnswer>},
    Schema{"lease", "gpuyard lease ... --json", json::schema<protocol::LeaseAnswer>},
    Schema{"leases", "gpuyard leases --json", json::schema<protocol::Leases>},
    Schema{"management", "gpuyard power, clocks, ... --json, when nothing is changed",
           json::schema<protocol::Management>},
    Schema{"operations", "gpuyard operations --json", json::schema<protocol::Operations>},
    Schema{"processes", "gpuyard processes --json; gpuyard query --processes --format json",
           json::schema<ProcessAnswer>},
    Schema{"query", "gpuyard query --format json; a line of gpuyard watch --json with fields",
           json::schema<QueryAnswer>},
    Schema{"queue", "gpuyard queue --json", json::schema<protocol::Queue>},
    Schema{"rules", "gpuyard alerts rules --json", json::schema<protocol::Rules>},
    Schema{"run", "what gpuyard run --summary writes", json::schema<RunAnswer>},
    Schema{"silence", "gpuyard alerts silence --json", json::schema<protocol::Silence>},
    Schema{"silences", "gpuyard alerts silences, unsilence --json",
           json::schema<protocol::Silences>},
    Schema{"sim-status", "gpuyard sim status --json", json::schema<sim::WorldStatus>},
    Schema{"sink-tests", "gpuyard alerts test --json", json::schema<protocol::SinkTests>},
    Schema{"sinks", "gpuyard alerts sinks --json", json::schema<protocol::Sinks>},
    Schema{"usage", "gpuyard usage --json", json::schema<protocol::Usage>},
    Schema{"version", "gpuyard version --json", json::schema<VersionAnswer>},
};

std::string text_of(const Schema& schema) {
  boost::json::object out{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                          {"title", schema.name},
                          {"description", schema.describes}};
  boost::json::object made = schema.make();
  made.erase("title");
  for (auto& [key, value] : made) out[key] = std::move(value);
  return pretty_json(out);
}

}  // namespace

Options add_schema(Options program, SchemaVerb& verb) {
  const Options schema = program.verb("schema", "Print the JSON Schema of what --json prints");
  schema.option("name", verb.name, "Without a name: which there are");
  return schema;
}

int run(const SchemaVerb& verb) {
  if (verb.name.empty()) {
    for (const Schema& schema : kSchemas)
      print(fmt::format("{:<16}{}\n", schema.name, schema.describes));
    return 0;
  }
  const auto schema = std::ranges::find(kSchemas, verb.name, &Schema::name);
  if (schema == kSchemas.end()) {
    return complain({Errc::not_found, fmt::format("there is no schema \"{}\"; `gpuyard schema` "
                                                  "names all",
                                                  verb.name)});
  }
  print(text_of(*schema));
  return 0;
}

}  // namespace gpuyard::cli
