#include "cli/kube/status.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/kube/cluster_wide.h"
#include "cli/kube/objects.h"
#include "cli/kube/verbs.h"
#include "cli/read/json_output.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/output.h"

namespace gpuyard::cli::kube {
namespace {

Tone tone_of(const std::string& status) {
  return status == "True" ? Tone::good : status == "False" ? Tone::bad : Tone::warning;
}

std::string age_of(const KubeNode& node, WallTime now) {
  const auto since = node.since ? from_rfc3339(*node.since) : std::nullopt;
  return since ? short_duration(std::max<std::int64_t>((now - *since) / std::chrono::seconds(1), 0))
               : "-";
}

KubeNode node_of(const SeenNode& seen, const std::vector<DeviceRule>& rules) {
  KubeNode node;
  node.node = seen.name;
  if (seen.condition) {
    node.status = status_word(seen.condition->text.status);
    node.reason = seen.condition->text.reason;
    node.message = seen.condition->text.message;
    node.since = to_rfc3339(seen.condition->changed_at);
  }
  const auto taint = std::ranges::find(seen.taints, kNodeTaintKey, &SeenTaint::key);
  if (taint != seen.taints.end()) node.taint = taint->value;
  for (const DeviceRule& rule : rules) {
    if (!is_own(rule, seen.name)) continue;
    node.tainted_devices.push_back(fmt::format("{}/{}/{}={}", rule.driver.value_or(""),
                                               rule.pool.value_or(""), rule.device.value_or(""),
                                               rule.value));
  }
  return node;
}

}  // namespace

KubeStatus status_of(std::string_view condition_type, ResourceApi api,
                     const std::vector<SeenNode>& nodes, const std::vector<DeviceRule>& rules) {
  KubeStatus status;
  status.condition = condition_type;
  if (api != ResourceApi::none) status.device_taints = version_name(api);
  for (const SeenNode& seen : nodes) {
    KubeNode node = node_of(seen, rules);
    if (!seen.condition && !node.taint && node.tainted_devices.empty()) continue;
    status.nodes.push_back(std::move(node));
  }
  return status;
}

Printable status_text(const KubeStatus& status, WallTime now, const Screen& screen) {
  FittedTable table{{{"NODE"},
                     {"HEALTHY"},
                     {"SINCE", true, 3},
                     {"REASON"},
                     {"NODE TAINT", false, 1},
                     {"DEVICES", true, 2},
                     {"MESSAGE", false, 4}}};
  for (const KubeNode& node : status.nodes) {
    table.add({{node.node},
               {node.status.empty() ? "-" : node.status, tone_of(node.status)},
               {age_of(node, now)},
               {node.reason.empty() ? "-" : node.reason},
               {node.taint.value_or("-")},
               {std::to_string(node.tainted_devices.size())},
               {node.message}});
  }
  Printable text = status.nodes.empty() ? Printable("No agent has set a condition or a taint.\n")
                                        : table.text(screen);
  text += status.device_taints
              ? formatted("Device taints: {}\n", *status.device_taints)
              : Printable(
                    "Device taints: this cluster serves no DeviceTaintRules, so only "
                    "conditions and node taints are set.\n");
  return text;
}

int show_status(const KubeVerb& verb) {
  const auto client = open_client(verb.kubeconfig);
  if (!client) return print_error(client.error());
  const auto all = read_all(*client, verb.settings.condition_type, verb.settings.node);
  if (!all) return print_error(all.error());
  const KubeStatus status =
      status_of(verb.settings.condition_type, all->api, all->nodes, all->rules);
  print(verb.json ? json_line(status)
                  : status_text(status, wall_now(), Screen::of_stdout(verb.color)));
  return 0;
}

}  // namespace gpuyard::cli::kube
