// The signals of the machine that alerts are evaluated from: its disk, its sinks, and what lets
// clients in.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/lifetime.h"
#include "base/loop.h"
#include "base/worker.h"
#include "core/andon/plugin_report.h"
#include "core/andon/signals.h"
#include "core/auth/token_store.h"
#include "daemon/listener_opener.h"
#include "faces/metrics/daemon_metrics.h"
#include "io/notify/sink_dispatcher.h"

namespace gpuyard::daemon {

// Thread: io.
class NodeSignals {
 public:
  static constexpr Duration kDiskPollInterval = std::chrono::seconds(30);

  // State of tokens, TLS, listeners and the reports of Slurm and Kubernetes, for alerts.
  struct Access {
    const auth::TokenStore* tokens = nullptr;
    const metrics::TlsMetrics* tls = nullptr;  // null: TLS is not configured
    const ListenerOpener::ClosedListeners* closed_listeners = nullptr;
    const std::string* slurm_error = nullptr;  // why a Slurm hook fails
    const andon::PluginReport* plugin_report = nullptr;
  };

  // The references outlive it. `query_worker` may wait for the disk of `state_directory`.
  NodeSignals(Loop& loop, Worker& query_worker, std::string state_directory)
      : loop_(loop), query_worker_(query_worker), directory_(std::move(state_directory)) {}

  void watch(const Access& access) { access_ = access; }
  const Access& access() const { return access_; }
  void start() { poll_disk(); }
  // Sets the signals of which this knows the state; leaves the others as they are.
  void read(const std::vector<notify::SinkStats>&, andon::Signals&);

 private:
  void read_access(andon::Signals&) const;
  void poll_disk();

  Loop& loop_;
  Worker& query_worker_;
  const std::string directory_;
  Access access_;
  std::optional<double> disk_free_percent_;
  std::map<std::string, TimePoint> failing_since_;  // failing sinks, and since when
  Subscription disk_timer_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::daemon
