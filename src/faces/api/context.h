// Everything that handlers may use. Thread: io.
//
// The routes of each file of handlers, bound to them. Handlers are plain functions; none blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/fair_queue.h"
#include "base/histogram.h"
#include "base/identifiers.h"
#include "base/limits.h"
#include "base/loop.h"
#include "core/andon/alert_service.h"
#include "core/andon/plugin_report.h"
#include "core/auth/auth_throttle.h"
#include "core/auth/token_store.h"
#include "core/bottleneck/bottleneck_spans.h"
#include "core/control/setting_controller.h"
#include "core/energy/meter.h"
#include "core/history/history.h"
#include "core/lease/lease_manager.h"
#include "core/processes/process_spans.h"
#include "core/usage/usage_recorder.h"
#include "faces/api/alert_view.h"
#include "faces/api/client_certificates.h"
#include "faces/api/event_hub.h"
#include "faces/api/lease_cache.h"
#include "faces/metrics/prometheus.h"
#include "faces/protocol/leases.h"
#include "faces/protocol/routes.h"
#include "gpu/device/process.h"
#include "gpu/telemetry/telemetry.h"
#include "io/http/response_stream.h"

namespace gpuyard::api {

// A body that is rendered once for each state of what it shows, however often it is requested.
template <class State = std::uint64_t>
class RenderCache {
 public:
  template <class Render>
  const std::shared_ptr<const std::string>& get(const State& wanted, Render&& render) {
    if (!body_ || state_ != wanted) {
      body_ = std::make_shared<const std::string>(render());
      state_ = wanted;
    }
    return body_;
  }

 private:
  State state_ = {};
  std::shared_ptr<const std::string> body_;
};

struct RouteCall;
struct BoundRoute;
struct Principal;
template <class Answer>
class Responder;
class QueueRenderer;

struct Context {
  telemetry::Telemetry& telemetry;
  EventHub& events;
  const ProcessDirectory& processes;
  history::History& history;
  processes::ProcessRecorder& process_recorder;
  bottleneck::BottleneckRecorder& bottleneck_recorder;
  energy::Meter& energy;
  control::SettingController& control;
  Loop& loop;  // of control and leases
  lease::LeaseManager& leases;
  usage::UsageRecorder& usage;  // of all leases
  andon::AlertService& alerts;
  AlertSinks& alert_sinks;
  AlertPublisher& alert_publisher;
  auth::TokenStore& tokens;
  auth::AuthThrottle& auth_throttle;
  ClientCertificates& certificates;
  const Histogram& loop_lag;
  const Histogram& alert_cost;  // of evaluating all rules
  std::string version;
  std::string instance = new_id();  // of this run of the daemon
  // A digest of each section of the configuration that is not as by default.
  std::map<std::string, std::string> configuration = {};
  std::string metrics_prefix;
  metrics::Dialect metrics_dialect = metrics::Dialect::gpuyard;
  protocol::Tariff tariff = {};
  // Renders a snapshot as the table that `gpuyard devices` prints.
  std::function<std::string(const protocol::Snapshot&)> device_table =
      [](const protocol::Snapshot&) { return std::string(); };
  // Returns whether this process may signal those of the user.
  std::function<bool(std::uint32_t uid)> can_signal = [](std::uint32_t) { return true; };
  // Returns whether the kernel's log is being read.
  std::function<bool()> reads_kernel_log = [] { return false; };
  bool holders_may_control = true;  // may set power and clocks of their leases' GPUs
  // Maps a uid to that of the owner whose quota it shares.
  std::function<std::uint32_t(std::uint32_t uid)> quota_owner = std::identity();
  // The TLS of the daemon; null: it speaks none.
  const metrics::TlsMetrics* tls = nullptr;
  // The addresses and sockets that are closed, and why; null: none can be.
  const std::map<std::string, std::string>* closed_listeners = nullptr;
  // Returns why other users' environments cannot be read now; "" if they can.
  std::function<std::string()> marks_error = [] { return std::string(); };
  // The restrictions that the daemon could not put on itself, and why.
  std::vector<std::string> lacks = {};
  // The events that were dropped before the rules; null: they are not counted.
  const EventDrops* event_drops = nullptr;
  // Returns a user's name if it is known by now; never waits.
  std::function<std::optional<std::string>(std::uint32_t uid)> user_name = [](std::uint32_t) {
    return std::nullopt;
  };
  // Returns whether the name service has reported that the user does not exist; never waits.
  std::function<bool(std::uint32_t uid)> is_user_gone = [](std::uint32_t) { return false; };
  // Returns the use under a lease until now; nothing before the grant.
  std::function<std::optional<protocol::LeaseUsage>(const lease::Lease&)> lease_usage =
      [](const lease::Lease&) { return std::nullopt; };
  // Calls `on_done` when these users' names are known or cannot be had soon; perhaps inside the
  // call.
  std::function<void(const std::vector<std::uint32_t>& uids, std::function<void()> on_done)>
      resolve_user_names = [](const auto&, const auto& on_done) { on_done(); };
  // Calls `on_member`, perhaps inside the call, with whether a user is now of the group that may
  // control.
  std::function<void(std::uint32_t uid, std::function<void(bool)> on_member)> check_group_member =
      [](std::uint32_t, const auto& on_done) { on_done(false); };
  std::uint64_t lease_changes = 0;               // counted by LeasePublisher
  std::string slurm_error = {};                  // what keeps a hook of Slurm from its work
  andon::PluginReport plugin_report = {};        // of the Kubernetes agent
  std::map<DeviceId, std::int64_t> minors = {};  // as they were last read
  RenderCache<> metrics = {};
  RenderCache<> openmetrics = {};
  RenderCache<> snapshot = {};
  // The answer of /api/gpu/devices to those who see all GPUs, of the last fresh read.
  RenderCache<telemetry::SnapshotPtr> fresh_devices = {};
  RenderCache<> brief = {};
  RenderCache<> openapi = {};
  RenderCache<> front_text = {};
  RenderCache<> front_page = {};
  // Queries of the history, the usage records, the alerts and the audit. Quota groups take
  // turns: see requester_of().
  FairQueue query_queue{limits::kMaxRunningQueries, limits::kMaxQueriesPerUser};
  std::shared_ptr<LeaseCache> lease_cache = {};        // see lease_cache()
  std::shared_ptr<QueueRenderer> queue_renderer = {};  // made at the first request
  // The power streams, by GPU, its index and its period; whole milliseconds keep the periods few.
  http::ChannelMap<std::tuple<DeviceId, std::uint32_t, std::chrono::milliseconds>> power_channels =
      {};
};

inline bool is_simulated(const telemetry::Telemetry& telemetry) {
  return telemetry.latest()->driver.info.simulated;
}

using protocol::NoParams;
using protocol::Text;

std::vector<BoundRoute> device_routes();
std::vector<BoundRoute> history_routes();
std::vector<BoundRoute> record_routes();
std::vector<BoundRoute> driver_routes();
std::vector<BoundRoute> snapshot_routes();
std::vector<BoundRoute> event_routes();
std::vector<BoundRoute> power_stream_routes();
std::vector<BoundRoute> energy_routes();
std::vector<BoundRoute> control_routes();
// Returns the requester of a change, and on whose behalf.
control::ChangeRequester control_requester_of(const Context&, const Principal&, bool admin,
                                              const std::string& request_id, TimePoint received);
std::vector<BoundRoute> lease_list_routes();
std::vector<BoundRoute> lease_routes();
std::vector<BoundRoute> queue_routes();
std::vector<BoundRoute> usage_routes();
std::vector<BoundRoute> cordon_routes();
std::vector<BoundRoute> alert_routes();
std::vector<BoundRoute> token_routes();
std::vector<BoundRoute> brief_routes();
std::vector<BoundRoute> slurm_routes();
std::vector<BoundRoute> pod_routes();
std::vector<BoundRoute> verdict_routes();
std::vector<BoundRoute> node_routes();
std::vector<BoundRoute> openapi_routes();
std::vector<BoundRoute> page_routes();

// The newest snapshot as this caller sees it: for a token of some GPUs as if there were no others.
telemetry::SnapshotPtr visible_snapshot(const telemetry::Telemetry&, const Principal&);

// Answers with all GPUs that this caller sees, as they were at a past moment.
void respond_with_past_snapshot(Context&, const RouteCall&, std::string_view at,
                                const Responder<protocol::Snapshot>&);

// The error for a caller with too many queries waiting: see Context::query_queue.
inline Error too_many_queries() {
  return {Errc::busy, "too many of your requests are waiting for an answer; try again in a second"};
}

}  // namespace gpuyard::api
