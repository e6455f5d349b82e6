// gpuyard kube agent: reads the daemon's verdicts each second, asks the kubelet every few seconds,
// makes the cluster know the GPUs' health, and the daemon the pods that have GPUs and the GPUs that
// a device plugin hides. Restarts that plugin if an administrator wants it.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/identifiers.h"
#include "base/log.h"
#include "base/try.h"
#include "cli/kube/agent_environment.h"
#include "cli/kube/cluster.h"
#include "cli/kube/event_reporter.h"
#include "cli/kube/kubelet.h"
#include "cli/kube/node_daemon.h"
#include "cli/kube/plugin_pods.h"
#include "cli/kube/plugin_reporter.h"
#include "cli/kube/plugin_restarter.h"
#include "cli/kube/pod_reporter.h"
#include "cli/kube/reconciler.h"
#include "cli/kube/verbs.h"
#include "cli/screen/output.h"
#include "io/kubelet/client.h"

namespace gpuyard::cli::kube {
namespace {

constexpr Duration kPollInterval = std::chrono::seconds(1);
constexpr std::string_view kNoKubelet = "none";  // of --kubelet

// Reads the verdicts, and keeps the last answer.
class DaemonPoller {
 public:
  explicit DaemonPoller(const NodeDaemon& daemon) : daemon_(daemon) {
    report_.answered_at = BootClock::now();
  }

  // Returns whether the daemon has answered.
  bool poll() {
    auto verdicts = daemon_.fetch_verdicts();
    const bool too_old = !verdicts && verdicts.error().code == Errc::not_found;
    log_change(verdicts ? "" : verdicts.error().text());
    if (!verdicts && !too_old) return false;
    report_.answered_at = BootClock::now();
    report_.too_old = too_old;
    if (verdicts) report_.verdicts = *std::move(verdicts);
    return true;
  }
  const DaemonReport& report() const { return report_; }

 private:
  void log_change(std::string error) {
    if (error == error_) return;
    if (error.empty()) {
      log::info("the daemon answers again");
    } else {
      log::warning("{}", error);
    }
    error_ = std::move(error);
  }

  const NodeDaemon& daemon_;
  DaemonReport report_;
  std::string error_;  // of the last poll; empty: it was answered
};

// Longest duration of a round. Each request has a timeout, but saving --memory to a disk has none.
constexpr unsigned kRoundDeadlineS = 300;

// Called once before the handler, which may not allocate.
const Printable& hung_line() {
  static const Printable line =
      "error a round has not ended within 5 min: the agent exits, and is to be restarted\n";
  return line;
}

void exit_hung_agent(int /*signal*/) {
  pollfd writable{STDERR_FILENO, POLLOUT, 0};  // what hangs may be the reader of the log
  if (::poll(&writable, 1, 0) == 1) print_stderr(hung_line());
  std::_Exit(EXIT_FAILURE);
}

// The first process of a container is not ended by a signal that it does not handle.
void end_on_signals() {
  struct sigaction action{};
  action.sa_handler = [](int) { std::_Exit(EXIT_SUCCESS); };
  for (const int number : {SIGTERM, SIGINT}) ::sigaction(number, &action, nullptr);
  hung_line();
  action.sa_handler = exit_hung_agent;
  ::sigaction(SIGALRM, &action, nullptr);
}

std::string kubelet_socket(const KubeVerb& verb) {
  if (verb.kubelet == kNoKubelet) return "";
  return verb.kubelet.empty() ? kubelet::kDefaultSocket : verb.kubelet;
}

std::string node_uid(const Seen& seen) {
  return seen.node ? seen.node->uid : "";
}

Moment now() {
  return {BootClock::now(), wall_now()};
}

Result<void> check_pod_name(const std::string& name) {
  const std::size_t slash = name.find('/');
  const bool is_one = slash != name.npos && slash > 0 && slash + 1 < name.size() &&
                      name.find('/', slash + 1) == name.npos;
  if (name.empty() || is_one) return {};
  return Error{Errc::invalid, fmt::format("expected --pod NAMESPACE/NAME, got \"{}\"", name)};
}

// Empty: no plugin is restarted.
Result<std::optional<PluginLabel>> label_to_restart(const KubeVerb& verb) {
  if (verb.restart_plugin.empty()) return std::optional<PluginLabel>();
  auto label = GPUYARD_TRY(parse_plugin_label(verb.restart_plugin));
  if (verb.kubelet == kNoKubelet) {
    return Error{Errc::invalid,
                 "--restart-plugin needs the kubelet, which knows the GPUs that the plugin hides: "
                 "remove --kubelet none"};
  }
  return std::optional<PluginLabel>(std::move(label));
}

}  // namespace

int run_agent(const KubeVerb& verb) {
  if (const auto named = check_pod_name(verb.pod); !named) return print_error(named.error());
  const auto label = label_to_restart(verb);
  if (!label) return print_error(label.error());
  auto client = open_client(verb.kubeconfig);
  if (!client) return print_error(client.error());
  const gpuyard::kube::Client restart_client = client->with_timeout(kPluginRequestTimeout);
  end_on_signals();
  const Settings& settings = verb.settings;
  Cluster cluster(*std::move(client), settings.node, settings.condition_type);
  MemoryFile file(verb.memory);
  std::minstd_rand generator{
      static_cast<std::minstd_rand::result_type>(std::hash<std::string>()(new_id()))};
  Kubelet kubelet(kubelet_socket(verb));
  const AgentEnvironment environment{now,
                                     [&] { return std::uniform_real_distribution<>()(generator); }};
  Reconciler reconciler(settings, cluster, kubelet, file, environment);
  std::optional<EventReporter> events;
  if (settings.events) events.emplace(cluster, file, environment);
  NodeDaemon daemon(verb.socket);
  DaemonPoller poller(daemon);
  std::optional<PodReporter> pods;
  std::optional<PluginReporter> plugin;
  if (verb.kubelet != kNoKubelet) {
    pods.emplace(verb.pod, kubelet, daemon, &BootClock::now);
    plugin.emplace(kubelet, daemon, &BootClock::now);
  }
  std::optional<PluginPods> plugin_pods;
  std::optional<PluginRestarter> restarter;
  if (*label) {
    plugin_pods.emplace(restart_client, **label, settings.node);
    restarter.emplace(settings.node, **label, *plugin_pods, daemon, file, environment);
    log::info("restarting the device plugin with the label {} in namespace {} where needed",
              (*label)->selector(), (*label)->namespace_name);
  }
  log::info("keeping the condition {} of node {}", settings.condition_type, settings.node);
  auto next = std::chrono::steady_clock::now();
  while (true) {
    ::alarm(kRoundDeadlineS);
    const bool answered = poller.poll();
    reconciler.run_round(poller.report(), answered);
    if (events) events->run_round(poller.report(), node_uid(cluster.seen()));
    if (pods) pods->run_round(cluster.seen().devices, answered);
    const auto& verdicts = poller.report().verdicts;
    const auto* const latest = answered && verdicts ? &*verdicts : nullptr;
    if (plugin) plugin->run_round(latest, cluster.seen().devices);
    if (plugin && restarter) restarter->run_round(latest, plugin->hidden());
    next = std::max(next + kPollInterval, std::chrono::steady_clock::now());
    std::this_thread::sleep_until(next);
  }
}

}  // namespace gpuyard::cli::kube
