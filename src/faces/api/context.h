// The dependencies of route handlers: one struct for each family of routes. A handler takes the
// struct of its family as its first parameter, and cannot use another. Mutable state is a member
// of one struct; others have references to it. Thread: io.
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

// The components of the daemon behind the API. Used by Context and the router, not by
// handlers.
struct Rooms {
  Loop& loop;  // of control and leases
  telemetry::Telemetry& telemetry;
  EventHub& events;
  const ProcessDirectory& processes;
  history::History& history;
  processes::ProcessRecorder& process_recorder;
  bottleneck::BottleneckRecorder& bottleneck_recorder;
  energy::Meter& energy;
  control::SettingController& control;
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
};

// Lookups of users by uid.
struct Users {
  // Returns a user's name if it is known by now; never waits.
  std::function<std::optional<std::string>(std::uint32_t uid)> name_of = [](std::uint32_t) {
    return std::nullopt;
  };
  // Returns whether the name service has reported that the user does not exist; never waits.
  std::function<bool(std::uint32_t uid)> is_gone = [](std::uint32_t) { return false; };
  // Calls `on_done` when these users' names are known or cannot be had soon; perhaps inside the
  // call.
  std::function<void(const std::vector<std::uint32_t>& uids, std::function<void()> on_done)>
      resolve = [](const auto&, const auto& on_done) { on_done(); };
  // Calls `on_member`, perhaps inside the call, with whether a user is now of the group that may
  // control.
  std::function<void(std::uint32_t uid, std::function<void(bool)> on_member)> check_group_member =
      [](std::uint32_t, const auto& on_done) { on_done(false); };
  // Maps a uid to that of the owner whose quota it shares.
  std::function<std::uint32_t(std::uint32_t uid)> quota_owner = std::identity();
  // Returns whether this process may signal those of the user.
  std::function<bool(std::uint32_t uid)> can_signal = [](std::uint32_t) { return true; };
};

// This run of the daemon.
struct DaemonFacts {
  std::string version = {};
  std::string instance = new_id();
  const metrics::TlsMetrics* tls = nullptr;  // null: it speaks no TLS
};

// The past of GPUs.
struct PastApi {
  const telemetry::Telemetry& telemetry;
  history::History& history;
  const processes::ProcessRecorder& process_recorder;
  const bottleneck::BottleneckRecorder& bottleneck_recorder;
  FairQueue& queries;
};

// GPUs as they are, and the streams of events and of power.
struct GpuApi {
  telemetry::Telemetry& telemetry;
  EventHub& events;
  const ProcessDirectory& processes;
  PastApi& past;  // for a snapshot of a past moment
  // The answer of /api/gpu/devices to those who see all GPUs, of the last fresh read.
  RenderCache<telemetry::SnapshotPtr> fresh_devices = {};
  RenderCache<> snapshot = {};
  // The power streams, by GPU, its index and its period; whole milliseconds keep the periods few.
  http::ChannelMap<std::tuple<DeviceId, std::uint32_t, std::chrono::milliseconds>> power_channels =
      {};
};

struct EnergyApi {
  const telemetry::Telemetry& telemetry;
  energy::Meter& energy;
  protocol::Tariff tariff = {};
};

// Settings of GPUs, and the audit.
struct ControlApi {
  const telemetry::Telemetry& telemetry;
  Loop& loop;
  control::SettingController& control;
  const lease::LeaseManager& leases;  // for the rights of holders
  const Users& users;
  FairQueue& queries;
  bool holders_may_control = true;  // may set power and clocks of their leases' GPUs
};

// The sources of the view of a lease.
struct LeaseFacts {
  const telemetry::Telemetry& telemetry;
  const Loop& loop;
  const lease::LeaseManager& leases;
  const usage::UsageRecorder& usage;
  const Users& users;
  std::shared_ptr<LeaseCache> cache;
};

// Claims, leases, the queue and cordons.
struct LeaseApi {
  lease::LeaseManager& leases;
  Loop& loop;
  AlertPublisher& alert_publisher;
  LeaseFacts facts;
  std::shared_ptr<QueueRenderer> queue_renderer = {};  // made at the first request
  std::uint64_t changes = 0;                           // counted by LeasePublisher
};

// The use under leases.
struct UsageApi {
  const telemetry::Telemetry& telemetry;
  const Loop& loop;
  usage::UsageRecorder& usage;
  const Users& users;
  const protocol::Tariff& tariff;
  FairQueue& queries;
};

struct VerdictApi {
  const telemetry::Telemetry& telemetry;
  const andon::AlertService& alerts;
  const lease::LeaseManager& leases;
  std::map<DeviceId, std::int64_t> minors = {};  // as they were last read
};

struct SlurmApi {
  lease::LeaseManager& leases;
  const LeaseFacts& facts;
  VerdictApi& verdicts;
  std::string error = {};  // what keeps a hook of Slurm from its work
};

// The pods of Kubernetes.
struct PodApi {
  lease::LeaseManager& leases;
  const LeaseFacts& facts;
  andon::PluginReport plugin_report = {};
};

struct AlertApi {
  const telemetry::Telemetry& telemetry;
  const Loop& loop;
  andon::AlertService& alerts;
  AlertSinks& alert_sinks;
  FairQueue& queries;
};

struct TokenApi {
  const telemetry::Telemetry& telemetry;
  const Loop& loop;
  auth::TokenStore& tokens;
  const Users& users;
};

// Dependencies of Authenticator; no route uses it.
struct AuthApi {
  const Loop& loop;
  auth::TokenStore& tokens;
  auth::AuthThrottle& throttle;
  ClientCertificates& certificates;
  control::SettingController& control;  // audits refusals
  const Users& users;
};

struct MetricsApi {
  const telemetry::Telemetry& telemetry;
  const Loop& loop;
  const lease::LeaseManager& leases;
  const andon::AlertService& alerts;
  const AlertSinks& alert_sinks;
  const DaemonFacts& daemon;
  const Histogram& loop_lag;
  const Histogram& alert_cost;
  const std::uint64_t& lease_changes;
  std::string prefix = {};
  metrics::Selection selection = {};
  // The events that were dropped before the rules; null: they are not counted.
  const EventDrops* event_drops = nullptr;
  RenderCache<> text = {};
  RenderCache<> openmetrics = {};
};

// The driver, and whether the daemon is alive and ready.
struct NodeApi {
  const telemetry::Telemetry& telemetry;
  const Loop& loop;
  const control::SettingController& control;
  const AlertSinks& alert_sinks;
  const DaemonFacts& daemon;
  // Returns whether the kernel's log is being read.
  std::function<bool()> reads_kernel_log = [] { return false; };
  // The addresses and sockets that are closed, and why; null: none can be.
  const std::map<std::string, std::string>* closed_listeners = nullptr;
  // Returns why other users' environments cannot be read now; "" if they can.
  std::function<std::string()> marks_error = [] { return std::string(); };
  // The restrictions that the daemon could not put on itself, and why.
  std::vector<std::string> lacks = {};
};

// The views of many machines.
struct BriefApi {
  const telemetry::Telemetry& telemetry;
  const lease::LeaseManager& leases;
  const andon::AlertService& alerts;
  const Users& users;
  const DaemonFacts& daemon;
  const std::uint64_t& lease_changes;
  // A digest of each section of the configuration that is not as by default.
  std::map<std::string, std::string> configuration = {};
  RenderCache<> brief = {};
};

// The machine's inventory.
struct HostApi {
  const telemetry::Telemetry& telemetry;
  VerdictApi& verdicts;  // for minor numbers
  FairQueue& queries;
  // Reads the machine's files on a worker; false: too much waits there.
  std::function<bool(std::function<void(Result<protocol::HostMachine>)> on_read)> read_machine =
      [](const auto&) { return false; };
};

// The pages, and the description of the API.
struct PageApi {
  const telemetry::Telemetry& telemetry;
  const ProcessDirectory& processes;
  const DaemonFacts& daemon;
  // Renders a snapshot as the table that `gpuyard devices` prints.
  std::function<std::string(const protocol::Snapshot&)> device_table =
      [](const protocol::Snapshot&) { return std::string(); };
  RenderCache<> front_text = {};
  RenderCache<> front_page = {};
  RenderCache<> openapi = {};
};

// The struct of each family, for the router. The rooms outlive it.
struct Context {
  explicit Context(const Rooms& all) : rooms(all) {}

  const Rooms rooms;
  Users users = {};
  DaemonFacts daemon = {};
  // Queries of the history, the usage records, the alerts and the audit. Quota groups take
  // turns: see requester_of().
  FairQueue queries{limits::kMaxRunningQueries, limits::kMaxQueriesPerUser};
  PastApi past{rooms.telemetry, rooms.history, rooms.process_recorder, rooms.bottleneck_recorder,
               queries};
  GpuApi gpus{rooms.telemetry, rooms.events, rooms.processes, past};
  EnergyApi energy{rooms.telemetry, rooms.energy};
  ControlApi control{rooms.telemetry, rooms.loop, rooms.control, rooms.leases, users, queries};
  LeaseApi leases{rooms.leases,
                  rooms.loop,
                  rooms.alert_publisher,
                  {rooms.telemetry, rooms.loop, rooms.leases, rooms.usage, users,
                   std::make_shared<LeaseCache>(rooms.loop, rooms.leases)}};
  UsageApi usage{rooms.telemetry, rooms.loop, rooms.usage, users, energy.tariff, queries};
  VerdictApi verdicts{rooms.telemetry, rooms.alerts, rooms.leases};
  SlurmApi slurm{rooms.leases, leases.facts, verdicts};
  PodApi pods{rooms.leases, leases.facts};
  AlertApi alerts{rooms.telemetry, rooms.loop, rooms.alerts, rooms.alert_sinks, queries};
  TokenApi tokens{rooms.telemetry, rooms.loop, rooms.tokens, users};
  AuthApi auth{rooms.loop,         rooms.tokens,  rooms.auth_throttle,
               rooms.certificates, rooms.control, users};
  MetricsApi metrics{rooms.telemetry, rooms.loop,        rooms.leases,
                     rooms.alerts,    rooms.alert_sinks, daemon,
                     rooms.loop_lag,  rooms.alert_cost,  leases.changes};
  NodeApi node{rooms.telemetry, rooms.loop, rooms.control, rooms.alert_sinks, daemon};
  BriefApi brief{rooms.telemetry, rooms.leases, rooms.alerts, users, daemon, leases.changes};
  HostApi host{rooms.telemetry, verdicts, queries};
  PageApi pages{rooms.telemetry, rooms.processes, daemon};
};

// Returns the struct of one family.
template <class Api>
Api& api_of(Context& all) {
  return std::get<Api&>(std::tie(all.past, all.gpus, all.energy, all.control, all.leases, all.usage,
                                 all.verdicts, all.slurm, all.pods, all.alerts, all.tokens,
                                 all.metrics, all.node, all.brief, all.host, all.pages));
}

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
control::ChangeRequester control_requester_of(const Users&, const Principal&, bool admin,
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
std::vector<BoundRoute> host_routes();
std::vector<BoundRoute> node_routes();
std::vector<BoundRoute> openapi_routes();
std::vector<BoundRoute> page_routes();

// The newest snapshot as this caller sees it: for a token of some GPUs as if there were no others.
telemetry::SnapshotPtr visible_snapshot(const telemetry::Telemetry&, const Principal&);

// Answers with all GPUs that this caller sees, as they were at a past moment.
void respond_with_past_snapshot(PastApi&, const RouteCall&, std::string_view at,
                                const Responder<protocol::Snapshot>&);

// The error for a caller with too many queries waiting: see Context::queries.
inline Error too_many_queries() {
  return {Errc::busy, "too many of your requests are waiting for an answer; try again in a second"};
}

}  // namespace gpuyard::api
