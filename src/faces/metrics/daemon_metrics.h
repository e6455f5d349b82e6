// The figures of /metrics beside the GPUs' readings. They are plain values, filled in for one
// rendering by the owners of the facts. Knows no lease, rule or sink.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/histogram.h"
#include "faces/metrics/metrics_writer.h"
#include "gpu/device/event.h"

namespace gpuyard::metrics {

// The leased GPUs and the number of waiting claims; no metric names a user.
struct LeaseMetrics {
  std::vector<std::pair<std::string, bool>> gpus = {};  // label_of() each, whether it is leased
  std::size_t held = 0;
  std::size_t waiting = 0;
  std::uint64_t grants = 0;
};

// An alert that fires, at most one for each rule and GPU. No metric holds its text.
struct FiringAlert {
  std::string rule;   // as the configuration calls it
  std::string level;  // info, warning, error or critical
  int severity = 0;   // 0 to 100
  // Of its GPU: its index, or its UUID where the index is another GPU's; none: the alert is the
  // node's.
  std::optional<std::string> device = {};
  bool acknowledged = false;
  bool silenced = false;
};

// One destination of alerts; its counters begin when the daemon starts.
struct SinkMetrics {
  std::string name;  // as the configuration calls it
  std::string kind;  // log, command, webhook, slack, pagerduty, alertmanager
  std::size_t queued = 0;
  std::uint64_t delivered = 0;
  std::uint64_t retries = 0;
  std::uint64_t dead = 0;  // given up
};

struct AlertMetrics {
  std::vector<FiringAlert> firing = {};
  std::vector<SinkMetrics> sinks = {};
  std::size_t pending = 0;  // conditions that are met, but not for long enough yet
  std::size_t rules = 0;    // that are evaluated
  const Histogram* evaluation_time = nullptr;  // time to evaluate all rules; null: not measured
};

// The certificate that clients on other machines see.
struct TlsMetrics {
  std::optional<std::int64_t> expires_at = {};  // Unix time, seconds; empty: there is none
  std::uint64_t reload_failures = 0;
  std::uint64_t handshakes = 0;
  std::uint64_t failed_handshakes = 0;
  std::uint64_t refused_handshakes = 0;  // there was no room for them
  std::string reload_error = {};         // why the files are not what is in use; "": they are
};

// Events of GPUs that were dropped because too many came at once, since the daemon started.
struct EventMetrics {
  EventDrops by_source;
  std::uint64_t by_rules = 0;  // that no rule counted
};

// Facts about the daemon itself, beside the GPUs.
struct DaemonMetrics {
  std::string version;
  const Histogram* loop_lag = nullptr;   // null: not measured
  const LeaseMetrics* leases = nullptr;  // null: this process leases no GPUs
  const AlertMetrics* alerts = nullptr;  // null: this process evaluates no rules
  std::string hostname = {};             // a label of DCGM's dialect; "": no label
  const TlsMetrics* tls = nullptr;       // null: this process speaks no TLS
  const EventMetrics* events = nullptr;  // null: this process takes no events
};

// Alerts that fire, and their deliveries, as families of series.
void put_alerts(MetricsWriter&, const AlertMetrics&);

}  // namespace gpuyard::metrics
