// gpuyard kube agent: reads the daemon's verdicts each second, asks the kubelet now and then what
// it offers, and makes the cluster know the GPUs' health.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/identifiers.h"
#include "base/log.h"
#include "cli/kube/cluster.h"
#include "cli/kube/kubelet.h"
#include "cli/kube/reconciler.h"
#include "cli/kube/verbs.h"
#include "cli/read/source_access.h"
#include "cli/screen/output.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"
#include "io/kubelet/client.h"

namespace gpuyard::cli::kube {
namespace {

constexpr Duration kPollInterval = std::chrono::seconds(1);
constexpr std::string_view kNoKubelet = "none";  // of --kubelet

// Reads the verdicts, and keeps the last answer.
class DaemonPoller {
 public:
  explicit DaemonPoller(std::string socket) : socket_(std::move(socket)) {
    report_.answered_at = BootClock::now();
  }

  // Returns whether the daemon has answered.
  bool poll() {
    auto verdicts = fetch();
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
  Result<protocol::GpuVerdicts> fetch() const {
    const auto daemon = require_daemon(socket_, "no daemon is running on this machine");
    if (!daemon) {
      Error error = daemon.error();
      if (error.code == Errc::not_found) error.code = Errc::unavailable;  // not an old daemon
      return error;
    }
    return client::call(*daemon, protocol::kVerdict);
  }

  void log_change(std::string error) {
    if (error == error_) return;
    if (error.empty()) {
      log::info("the daemon answers again");
    } else {
      log::warning("{}", error);
    }
    error_ = std::move(error);
  }

  std::string socket_;
  DaemonReport report_;
  std::string error_;  // of the last poll; empty: it was answered
};

// The first process of a container is not ended by a signal that it does not handle.
void end_on_signals() {
  struct sigaction action{};
  action.sa_handler = [](int) { std::_Exit(EXIT_SUCCESS); };
  for (const int number : {SIGTERM, SIGINT}) ::sigaction(number, &action, nullptr);
}

std::string kubelet_socket(const KubeVerb& verb) {
  if (verb.kubelet == kNoKubelet) return "";
  return verb.kubelet.empty() ? kubelet::kDefaultSocket : verb.kubelet;
}

Moment now() {
  return {BootClock::now(), wall_now()};
}

}  // namespace

int run_agent(const KubeVerb& verb) {
  auto client = open_client(verb.kubeconfig);
  if (!client) return print_error(client.error());
  end_on_signals();
  const Settings& settings = verb.settings;
  Cluster cluster(*std::move(client), settings.node, settings.condition_type);
  MemoryFile file(verb.memory);
  std::minstd_rand generator{
      static_cast<std::minstd_rand::result_type>(std::hash<std::string>()(new_id()))};
  Kubelet kubelet(kubelet_socket(verb));
  Reconciler reconciler(settings, cluster, kubelet, file,
                        {now, [&] { return std::uniform_real_distribution<>()(generator); }});
  DaemonPoller daemon(verb.socket);
  log::info("keeping the condition {} of node {}", settings.condition_type, settings.node);
  auto next = std::chrono::steady_clock::now();
  while (true) {
    const bool answered = daemon.poll();
    reconciler.run_round(daemon.report(), answered);
    next = std::max(next + kPollInterval, std::chrono::steady_clock::now());
    std::this_thread::sleep_until(next);
  }
}

}  // namespace gpuyard::cli::kube
