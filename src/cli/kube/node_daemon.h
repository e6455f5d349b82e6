// The daemon of this node, as the agent asks it. Calls block until the answer or a timeout.
#pragma once

#include <set>
#include <string>

#include "base/result.h"
#include "cli/kube/plugin_reporter.h"
#include "cli/kube/plugin_restarter.h"
#include "cli/kube/pod_reporter.h"
#include "faces/protocol/verdict.h"
#include "io/http/endpoint.h"

namespace gpuyard::cli::kube {

class NodeDaemon final : public PodLeaseView, public PluginReportView, public PluginAlertView {
 public:
  // "": the one of this machine. It is looked for anew for each request.
  explicit NodeDaemon(std::string socket);

  // Errc::not_found: the daemon does not have the route.
  Result<protocol::GpuVerdicts> fetch_verdicts() const;

  Result<LeasedPods> fetch_leased_pods() override;
  Result<void> report(const PodReport&) override;
  Result<void> report_hidden(const std::set<std::string>& uuids) override;
  Result<std::set<std::string>> fetch_plugin_alerts() override;

 private:
  Result<http::Endpoint> find() const;
  Result<void> send(const http::Endpoint&, const BeginPod&) const;
  Result<void> send(const http::Endpoint&, const EndPod&) const;

  std::string socket_;
};

}  // namespace gpuyard::cli::kube
