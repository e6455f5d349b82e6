// gpuyard kube: its options, and what its verbs share.
#include "base/try.h"
#include "cli/kube/verbs.h"
#include "cli/lease/forget_allocator.h"
#include "cli/shared_options.h"
#include "faces/protocol/routes.h"
#include "io/kube/kubeconfig.h"

namespace gpuyard::cli {
namespace kube {

Result<gpuyard::kube::Client> open_client(const std::string& kubeconfig) {
  auto server = GPUYARD_TRY(kubeconfig.empty() ? gpuyard::kube::api_server_of_pod()
                                               : gpuyard::kube::read_kubeconfig(kubeconfig));
  return gpuyard::kube::Client(std::move(server));
}

Error error_of(const gpuyard::kube::Answer& answer) {
  using enum gpuyard::kube::Outcome;
  switch (answer.outcome) {
    case absent:
    case gone:
      return {Errc::not_found, answer.message};
    case unauthorized:
    case forbidden:
      return {Errc::denied, answer.message};
    case conflict:
    case already_exists:
      return {Errc::conflict, answer.message};
    case throttled:
      return {Errc::busy, answer.message};
    case unreachable:
    case server_error:
      return {Errc::unavailable, answer.message};
    default:
      return {Errc::internal, answer.message};
  }
}

}  // namespace kube

namespace {

void add_manifest(const Options& kube, KubeVerb& verb) {
  const Options manifest =
      kube.verb("manifest", "Print the manifest of daemon and agent for kubectl")
          .sets(verb.action, KubeVerb::Action::manifest);
  manifest.usage({"gpuyard kube manifest --image NAME [OPTIONS]"});
  // Not required(): the error that follows says where an image comes from.
  manifest.option("--image", verb.image, "Image in your registry, with a tag or digest (required)")
      .metavar("NAME");
  manifest.option("--namespace", verb.name_space, "Namespace, which the manifest creates")
      .metavar("NAME")
      .default_is("gpuyard");
  manifest
      .explain(
          "For a cluster without Helm. The manifest is the Helm chart of this version with its "
          "default values and the agent. It contains the namespace, so `kubectl delete` of it "
          "deletes everything in that namespace.")
      .example("gpuyard kube manifest --image REGISTRY/gpuyard:TAG | kubectl apply -f -")
      .example("gpuyard kube manifest --image REGISTRY/gpuyard:TAG | kubectl delete -f -",
               "Remove it");
}

}  // namespace

Options add_kube(Options program, KubeVerb& verb) {
  const Options kube = program.verb("kube", "Report the health of GPUs to Kubernetes");
  kube.requires_verb()
      .explain(
          "The agent runs beside the daemon on each node. It sets a condition on its Node, taints "
          "the devices of GPUs that are bad or cordoned, and reports pods with GPUs to the daemon.")
      .example("gpuyard kube status --kubeconfig admin.json")
      .example("gpuyard kube agent --node n1", "In a pod of the node");
  const auto action = [&](KubeVerb::Action what, const char* name, const char* help) {
    const Options sub = kube.verb(name, help).sets(verb.action, what);
    sub.option("--kubeconfig", verb.kubeconfig, "Kubeconfig in JSON with the cluster and a token")
        .metavar("FILE")
        .default_is("the account of this pod");
    sub.option("--condition", verb.settings.condition_type, "Type of the Node's condition")
        .metavar("NAME")
        .default_is("gpuyard.io/GPUsHealthy");
    return sub;
  };
  const Options agent = action(KubeVerb::Action::agent, "agent",
                               "Keep a node's condition and taints in line with its GPUs");
  agent.option("--node", verb.settings.node, "Name of this machine's Node")
      .metavar("NAME")
      .required();
  const Option memory =
      agent.option("--memory", verb.memory, "File that survives a restart of the agent")
          .metavar("FILE")
          .default_is("none: a rule that an administrator deleted comes back");
  const Options taints = agent.heading("Taints");
  taints
      .option("--effect", verb.settings.effect,
              {{"None", kube::DeviceEffect::none},
               {"NoSchedule", kube::DeviceEffect::no_schedule},
               {"NoExecute", kube::DeviceEffect::no_execute}},
              "Effect of a bad GPU's device taint: None, NoSchedule or NoExecute")
      .metavar("NAME")
      .default_is("NoSchedule");
  taints
      .option("--taint-node", verb.settings.taint_node,
              {{"needed", kube::NodeTaintPolicy::needed},
               {"any", kube::NodeTaintPolicy::any},
               {"never", kube::NodeTaintPolicy::never}},
              "Taint the Node: needed (lost GPU, or still offered), any (bad GPU) or never")
      .metavar("WHEN")
      .default_is("needed");
  agent.flag("--no-events", verb.settings.events, false, "Write no Events about the Node");
  add_socket(agent, verb.socket);
  agent.option("--kubelet", verb.kubelet, "Socket of the kubelet's PodResources API, or none")
      .metavar("PATH")
      .default_is("/var/lib/kubelet/pod-resources/kubelet.sock");
  agent.option("--pod", verb.pod, "Pod of the agent; a list of pods is trusted if it has this one")
      .metavar("NAMESPACE/NAME")
      .default_is("none: a list with any pod is trusted");
  agent
      .option("--restart-plugin", verb.restart_plugin,
              "Restart the device plugin with this label if it hides a healthy GPU")
      .metavar("NAMESPACE/LABEL")
      .default_is("none: no plugin is restarted")
      .needs(memory)
      .details(
          "Deletes the plugin's pod on this node while the alert plugin-disagrees lasts: once an "
          "hour and three times within 24 hours at most, and not while a GPU of the node is bad.");
  agent
      .explain(
          "Runs until it is killed, beside the node's daemon. With --effect None it still sets the "
          "condition and the Node's taint. Each pod with whole GPUs gets a lease from the daemon, "
          "which then only records leases and grants none. With --kubelet none, pods get no "
          "leases.")
      .example("gpuyard kube agent --node n1 --memory /run/gpuyard-kube/memory.json")
      .example("gpuyard kube agent --node n1 --effect None", "Dry run for device taints");
  const Options status =
      action(KubeVerb::Action::status, "status", "Show what the cluster knows of its GPUs");
  status.option("--node", verb.settings.node, "Show this node only").metavar("NAME");
  add_json(status, verb.json);
  add_color(status, verb.color);
  status.example("gpuyard kube status --kubeconfig admin.json");
  add_manifest(kube, verb);
  const Options withdraw = action(KubeVerb::Action::withdraw, "withdraw",
                                  "Remove every condition and taint that agents have set");
  withdraw.option("--node", verb.settings.node, "Withdraw what was set for this node only")
      .metavar("NAME");
  withdraw.explain("Remove the agents first: an agent that runs sets them again.")
      .example("gpuyard kube withdraw --kubeconfig admin.json");
  const Options forget = kube.verb("forget", "Let gpuyard lease this machine's GPUs again")
                             .sets(verb.action, KubeVerb::Action::forget);
  add_socket(forget, verb.socket);
  forget
      .explain(
          "For a machine that leaves Kubernetes. Remove its agent first: the next pod that an "
          "agent reports makes leases observe again.")
      .example("gpuyard kube forget");
  return kube;
}

int run(const KubeVerb& verb) {
  switch (verb.action) {
    case KubeVerb::Action::agent:
      return kube::run_agent(verb);
    case KubeVerb::Action::status:
      return kube::show_status(verb);
    case KubeVerb::Action::manifest:
      return kube::print_manifest(verb);
    case KubeVerb::Action::withdraw:
      return kube::withdraw(verb);
    case KubeVerb::Action::forget:
      return forget_allocator(verb.socket, "the state of pods needs", protocol::kForgetPods,
                              "the Kubernetes agent reports a pod");
  }
  return 0;
}

}  // namespace gpuyard::cli
