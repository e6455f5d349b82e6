// gpuyard schema: what `--json` prints, as JSON Schema, written from the records themselves.
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "base/json_writer.h"
#include "base/text.h"
#include "cli/kube/status.h"
#include "cli/options.h"
#include "cli/read/history_table.h"
#include "cli/read/json_output.h"
#include "cli/read/processes.h"
#include "cli/read/query.h"
#include "cli/screen/output.h"
#include "cli/serve/config.h"
#include "cli/slurm/cluster_jobs.h"
#include "cli/slurm/cluster_nodes.h"
#include "cli/verbs.h"
#include "faces/fleet/view.h"
#include "faces/protocol/alerts.h"
#include "faces/protocol/control.h"
#include "faces/protocol/leases.h"
#include "faces/protocol/slurm.h"
#include "faces/protocol/tokens.h"
#include "sim/world_status.h"

namespace gpuyard::cli {
namespace {

// JSON for people and for diffs: two blanks for each level, short things on one line.
constexpr std::size_t kMaxLineWidth = 100;

void put(std::string& out, const boost::json::value& value, std::size_t depth);

template <class Items, class PutItem>
void put_items(std::string& out, const Items& items, const char* brackets, std::size_t depth,
               PutItem put_item) {
  const std::string indent(2 * (depth + 1), ' ');
  out += brackets[0];
  bool first = true;
  for (const auto& item : items) {
    out += std::exchange(first, false) ? "\n" : ",\n";
    out += indent;
    put_item(item);
  }
  out += "\n" + std::string(2 * depth, ' ') + brackets[1];
}

void put(std::string& out, const boost::json::value& value, std::size_t depth) {
  const std::string short_form = boost::json::serialize(value);
  const bool is_short = short_form.size() + 2 * depth < kMaxLineWidth / 2;
  if (is_short || value.is_primitive()) {
    out += short_form;
  } else if (const auto* object = value.if_object()) {
    put_items(out, *object, "{}", depth, [&](const auto& entry) {
      out += boost::json::serialize(entry.key()) + ": ";
      put(out, entry.value(), depth + 1);
    });
  } else {
    put_items(out, value.get_array(), "[]", depth,
              [&](const auto& item) { put(out, item, depth + 1); });
  }
}

std::string pretty_json(const boost::json::value& value) {
  std::string out;
  put(out, value, 0);
  return out + '\n';
}

struct Schema {
  std::string_view name;
  std::string_view describes;
  const json::Shape* shape;  // null for the configuration, which has a table of its own
};

constexpr std::array kSchemas = {
    Schema{"alert", "gpuyard alerts ack --json", &json::shape_of<protocol::AlertAnswer>},
    Schema{"alert-history", "gpuyard alerts history --json",
           &json::shape_of<protocol::AlertHistory>},
    Schema{"alerts", "gpuyard alerts --json", &json::shape_of<protocol::Alerts>},
    Schema{"audit", "gpuyard audit --json", &json::shape_of<protocol::Audit>},
    Schema{"bottlenecks", "gpuyard why --since ... --json", &json::shape_of<protocol::Bottlenecks>},
    Schema{"changes", "gpuyard power, clocks, ... --json, when changing settings",
           &json::shape_of<protocol::ChangeResults>},
    Schema{"config", "gpuyard config show --json", nullptr},
    Schema{"cordon", "gpuyard cordon, uncordon --json", &json::shape_of<protocol::CordonResult>},
    Schema{"devices", "gpuyard devices --json; each line of gpuyard watch --json",
           &json::shape_of<protocol::Snapshot>},
    Schema{"doctor", "gpuyard doctor --json", &json::shape_of<DoctorAnswer>},
    Schema{"driver", "gpuyard driver --json", &json::shape_of<DriverAnswer>},
    Schema{"energy", "gpuyard energy --json", &json::shape_of<protocol::EnergyReport>},
    Schema{"energy-command", "gpuyard energy --json -- COMMAND; the file written by --report",
           &json::shape_of<MeasuredCommand>},
    Schema{"events", "each line of gpuyard events --json", &json::shape_of<EventAnswer>},
    Schema{"fleet", "gpuyard fleet --json", &json::shape_of<fleet::FleetNodes>},
    Schema{"fleet-alerts", "gpuyard fleet alerts --json", &json::shape_of<fleet::FleetAlerts>},
    Schema{"fleet-doctor", "gpuyard fleet doctor --json", &json::shape_of<fleet::FleetDiagnosis>},
    Schema{"fleet-free", "gpuyard fleet free --json", &json::shape_of<fleet::FleetOffers>},
    Schema{"fleet-gpus", "gpuyard fleet gpus --json", &json::shape_of<fleet::FleetGpus>},
    Schema{"fleet-queue", "gpuyard fleet queue --json", &json::shape_of<fleet::FleetQueue>},
    Schema{"fleet-usage", "gpuyard fleet usage --json", &json::shape_of<fleet::FleetUsage>},
    Schema{"fleet-users", "gpuyard fleet users --json", &json::shape_of<fleet::FleetUsers>},
    Schema{"free", "gpuyard free --json", &json::shape_of<protocol::FreeGpus>},
    Schema{"history", "gpuyard history --json", &json::shape_of<HistoryAnswer>},
    Schema{"hosts", "gpuyard host list --json", &json::shape_of<HostsAnswer>},
    Schema{"kube", "gpuyard kube status --json", &json::shape_of<KubeStatus>},
    Schema{"lease", "gpuyard lease ... --json", &json::shape_of<protocol::LeaseAnswer>},
    Schema{"leases", "gpuyard leases --json", &json::shape_of<protocol::Leases>},
    Schema{"management", "gpuyard power, clocks, ... --json, when showing settings",
           &json::shape_of<protocol::Management>},
    Schema{"operations", "gpuyard operations --json", &json::shape_of<protocol::Operations>},
    Schema{"processes", "gpuyard processes --json; gpuyard query --processes --format json",
           &json::shape_of<ProcessAnswer>},
    Schema{"query", "gpuyard query --format json; each line of gpuyard watch --json with fields",
           &json::shape_of<QueryAnswer>},
    Schema{"queue", "gpuyard queue --json", &json::shape_of<protocol::Queue>},
    Schema{"rules", "gpuyard alerts rules --json", &json::shape_of<protocol::Rules>},
    Schema{"run", "the file written by gpuyard run --report", &json::shape_of<RunAnswer>},
    Schema{"silence", "gpuyard alerts silence --json", &json::shape_of<protocol::Silence>},
    Schema{"silences", "gpuyard alerts silences, unsilence --json",
           &json::shape_of<protocol::Silences>},
    Schema{"sim-status", "gpuyard sim status --json", &json::shape_of<sim::WorldStatus>},
    Schema{"sink-tests", "gpuyard alerts test --json", &json::shape_of<protocol::SinkTests>},
    Schema{"sinks", "gpuyard alerts sinks --json", &json::shape_of<protocol::Sinks>},
    Schema{"slurm", "gpuyard slurm status --json", &json::shape_of<protocol::SlurmNode>},
    Schema{"slurm-free", "gpuyard free, fleet free --through slurm --json",
           &json::shape_of<ClusterFree>},
    Schema{"slurm-leases", "gpuyard leases --through slurm --json", &json::shape_of<ClusterLeases>},
    Schema{"slurm-queue", "gpuyard queue --through slurm --json", &json::shape_of<ClusterQueue>},
    Schema{"stays", "gpuyard processes --since ... --json",
           &json::shape_of<protocol::ProcessSpans>},
    Schema{"tls", "gpuyard tls show, init --json", &json::shape_of<TlsAnswer>},
    Schema{"token", "gpuyard token create --json", &json::shape_of<protocol::NewToken>},
    Schema{"tokens", "gpuyard token list, revoke --json", &json::shape_of<protocol::Tokens>},
    Schema{"usage", "gpuyard usage --json", &json::shape_of<protocol::Usage>},
    Schema{"verdict", "gpuyard check --json", &json::shape_of<protocol::GpuVerdicts>},
    Schema{"version", "gpuyard version --json", &json::shape_of<VersionAnswer>},
    Schema{"why", "gpuyard why --json", &json::shape_of<WhyAnswer>},
};

std::string text_of(const Schema& schema) {
  boost::json::object out{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                          {"title", schema.name},
                          {"description", schema.describes}};
  auto made = schema.shape != nullptr ? json::schema(*schema.shape) : config_schema();
  made.erase("title");
  for (auto& [key, value] : made) out[key] = std::move(value);
  return pretty_json(out);
}

}  // namespace

Options add_schema(Options program, SchemaVerb& verb) {
  const Options schema = program.verb("schema", "Print the JSON Schema of the --json output");
  schema.option("name", verb.name, "Schema to print; without a name, list all schemas")
      .metavar("NAME");
  schema.example("gpuyard schema").example("gpuyard schema devices");
  return schema;
}

int run(const SchemaVerb& verb) {
  if (verb.name.empty()) {
    for (const Schema& schema : kSchemas)
      print(formatted("{:<16}{}\n", schema.name, schema.describes));
    return 0;
  }
  const auto schema = std::ranges::find(kSchemas, verb.name, &Schema::name);
  if (schema == kSchemas.end()) {
    std::vector<std::string_view> known;
    for (const Schema& one : kSchemas) known.push_back(one.name);
    return print_error(
        {Errc::not_found, unknown_word("schema", verb.name, known), "", "gpuyard schema"});
  }
  print(Printable::lines(text_of(*schema)));
  return 0;
}

}  // namespace gpuyard::cli
