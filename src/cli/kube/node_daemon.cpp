#include "cli/kube/node_daemon.h"

#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "base/try.h"
#include "cli/read/source_access.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli::kube {
namespace {

protocol::PodName route_name_of(std::string_view pod) {
  const std::size_t slash = pod.find('/');
  return {std::string(pod.substr(0, slash)),
          slash != pod.npos ? std::string(pod.substr(slash + 1)) : ""};
}

}  // namespace

NodeDaemon::NodeDaemon(std::string socket) : socket_(std::move(socket)) {}

Result<http::Endpoint> NodeDaemon::find() const {
  auto daemon = require_daemon(socket_);
  if (daemon || daemon.error().code != Errc::not_found) return daemon;
  Error error = std::move(daemon).error();
  error.code = Errc::unavailable;  // so that it is not taken for a daemon without the route
  return error;
}

Result<protocol::GpuVerdicts> NodeDaemon::fetch_verdicts() const {
  const auto daemon = GPUYARD_TRY(find());
  return client::call(daemon, protocol::kVerdict);
}

Result<LeasedPods> NodeDaemon::fetch_leased_pods() {
  const auto daemon = GPUYARD_TRY(find());
  auto pods = GPUYARD_TRY(client::call(daemon, protocol::kPods));
  LeasedPods leased;
  for (protocol::Pod& pod : pods.pods) {
    // A draining lease has ended; a pod that has its GPUs nevertheless needs another.
    if (pod.state != lease::LeaseState::held) continue;
    leased[pod.pod].insert(pod.uuids.begin(), pod.uuids.end());
  }
  return leased;
}

Result<void> NodeDaemon::report(const PodReport& report) {
  const auto daemon = GPUYARD_TRY(find());
  return std::visit([&](const auto& one) { return send(daemon, one); }, report);
}

Result<void> NodeDaemon::report_hidden(const std::set<std::string>& uuids) {
  const auto daemon = GPUYARD_TRY(find());
  const protocol::DevicePluginReport body{{uuids.begin(), uuids.end()}};
  const auto answer = client::call(daemon, protocol::kReportDevicePlugin, {}, body);
  if (!answer) return answer.error();
  return {};
}

Result<std::set<std::string>> NodeDaemon::fetch_plugin_alerts() {
  const auto daemon = GPUYARD_TRY(find());
  const auto alerts = GPUYARD_TRY(client::call(daemon, protocol::kAlerts));
  return disagreeing_gpus(alerts);
}

Result<void> NodeDaemon::send(const http::Endpoint& daemon, const BeginPod& begun) const {
  protocol::PodRequest body;
  body.uuids.assign(begun.uuids.begin(), begun.uuids.end());
  body.note = begun.note;
  const auto answer = client::call(daemon, protocol::kBeginPod, route_name_of(begun.pod), body);
  if (!answer) return answer.error();
  if (!answer->unknown.empty()) {
    log::warning("the driver does not have {} of pod {}", fmt::join(answer->unknown, ", "),
                 begun.pod);
  }
  return {};
}

Result<void> NodeDaemon::send(const http::Endpoint& daemon, const EndPod& ended) const {
  GPUYARD_TRY(client::call(daemon, protocol::kEndPod, route_name_of(ended.pod)));
  return {};
}

}  // namespace gpuyard::cli::kube
