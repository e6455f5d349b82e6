#include "daemon/daemon.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/json_writer.h"
#include "base/log.h"
#include "base/proc_stat.h"
#include "base/record.h"
#include "base/try.h"
#include "core/processes/identify.h"
#include "core/processes/user_names.h"
#include "daemon/config/keys.h"
#include "daemon/descriptor_budget.h"
#include "daemon/serve.h"
#include "faces/protocol/control.h"
#include "faces/protocol/energy.h"
#include "io/http/certificate.h"
#include "io/http/endpoint.h"
#include "io/store/migrations.h"

namespace gpuyard::daemon {
namespace {

constexpr Duration kShutdownGrace = std::chrono::milliseconds(500);
std::vector<std::string> host_arguments(const ServeOptions& options, rlim_t descriptors) {
  auto arguments = library::arguments_of(options.driver);
  arguments.insert(arguments.end(), {"--nofile", std::to_string(descriptors)});
  return arguments;
}

std::vector<std::string> setter_arguments(const ServeOptions& options, rlim_t descriptors) {
  auto arguments = host_arguments(options, descriptors);
  arguments.insert(arguments.end(), options.setter_arguments.begin(),
                   options.setter_arguments.end());
  return arguments;
}

HealthPolicy health_policy(const config::Config::Health& health) {
  const auto thresholds = [](const config::Config::Temperatures& own) {
    return HealthThresholds{own.degraded, own.unhealthy};
  };
  HealthPolicy policy{thresholds(health.common), {}};
  for (const auto& [gpu, own] : health.of_gpu) policy.of_gpu[gpu] = thresholds(own);
  return policy;
}

bottleneck::BottleneckThresholds bottleneck_policy(const config::Config::Bottleneck& of) {
  return {of.least_share_percent, of.starved_below_percent, of.waiting_power_percent,
          of.idle_after_s, of.memory_full_percent};
}

protocol::GpuEvent gpu_event_of(const events::Event& event) {
  return {to_rfc3339(event.wall),
          event.device.empty() ? std::nullopt : std::optional(event.device),
          event.index,
          event.kind,
          event.severity,
          event.xid,
          event.text};
}

// Both were checked with the configuration.
void add_certificates(api::Authority& authority, const config::Config::Tls& tls) {
  using enum config::Config::Tls::Anonymous;
  authority.anonymous = tls.anonymous == read      ? api::Scope::read
                        : tls.anonymous == metrics ? api::Scope::metrics
                                                   : api::Scope::open;
  for (const std::string& text : tls.clients) {
    const auto client = config::certificate_role_of(text);
    if (!client) continue;
    auth::Token grant;
    grant.name = client->name;
    grant.uid = client->uid;
    grant.scope = enum_from_name<api::Scope>(client->scope).value_or(api::Scope::open);
    authority.certificates.emplace(client->name, std::move(grant));
  }
}

std::set<std::string> revoked_of(const config::Config::Tls& tls) {
  std::set<std::string> revoked;
  for (const std::string& text : tls.revoked) {
    if (auto fingerprint = http::to_fingerprint(text)) revoked.insert(*std::move(fingerprint));
  }
  return revoked;
}

// Looked up once, before the loop turns: a name service may be slow.
api::Authority authority_of(const config::Config& config) {
  // The user who starts a daemon is its administrator. The user of the packaged service is not,
  // because commands of alerts run as that user.
  api::Authority authority(Environment::current().system_service ? 0 : ::geteuid());
  authority.lease_socket = config::lease_socket_of(config.server);
  add_certificates(authority, config.tls);
  authority.control_group = config.control.group;
  if (config.control.group.empty()) return authority;
  const auto gid = processes::look_up_group(config.control.group);
  if (gid) authority.control_gid = *gid;
  if (config.control.enabled && !gid) {
    log::warning("{}: only administrators can change GPUs", gid.error().text());
  }
  return authority;
}

// Nothing if none is configured.
std::optional<Result<UniqueFd>> open_kernel_log(const std::string& path) {
  if (path.empty()) return std::nullopt;
  return events::open_kernel_log(path);
}

metrics::Dialect dialect_of(config::Config::Metrics::Dialect dialect) {
  using Configured = config::Config::Metrics::Dialect;
  if (dialect == Configured::both) return metrics::Dialect::both;
  return dialect == Configured::dcgm ? metrics::Dialect::dcgm : metrics::Dialect::gpuyard;
}

}  // namespace

Daemon::Daemon(http::IoLoop& loop, const ServeOptions& options, AlertConfig alerts,
               rlim_t driver_descriptors)
    : loop_(loop),
      options_(options),
      kernel_log_file_(open_kernel_log(options.config.events.kernel_log)),
      loop_lag_(loop),
      host_(
          loop,
          [arguments = host_arguments(options, driver_descriptors)] {
            return driver::spawn_host(arguments);
          },
          *this),
      telemetry_(loop, *this, health_policy(options.config.health)),
      query_worker_(loop, "query"),
      name_worker_(loop, "names"),
      process_tracker_(name_worker_, options.config.processes.proc_root,
                       options.driver.replay ? processes::ProcessTracker::ListSource::recording
                                             : processes::ProcessTracker::ListSource::live),
      event_collector_(loop, event_log_,
                       {[this](const DeviceEvent& event) {
                          telemetry_.on_event(event);
                          alerts_.on_event(event);
                        },
                        [this](const DeviceEvent& event) {
                          telemetry_.on_duplicate_event(event);
                          alerts_.on_duplicate_event(event);
                        }}),
      bottleneck_detector_(bottleneck_policy(options.config.bottleneck)),
      event_hub_(event_log_.epoch(), telemetry_.latest(), &process_tracker_.directory()),
      bottleneck_publisher_(event_hub_),
      history_db_(
          std::make_shared<store::HistoryDb>(options.config.state.directory + "/history.db")),
      history_(loop, query_worker_, history_db_, boot_id()),
      process_recorder_(query_worker_, history_db_, boot_id()),
      bottleneck_recorder_(query_worker_, history_db_),
      store_worker_(loop, "store"),
      state_(store_worker_, query_worker_, options.config.state.directory + "/state.db",
             store::kStateMigrations),
      machine_memory_(loop, state_, telemetry_, boot_id()),
      energy_(loop, telemetry_, state_),
      control_(
          loop, host_, telemetry_, state_, options.config, event_log_.epoch(),
          make_setter_spawn(options.setter_address, setter_arguments(options, driver_descriptors)),
          options.version),
      marks_(connect_marks(options.config)),
      lease_worker_(loop, "lease"),
      leases_(loop, lease_worker_, telemetry_, control_.control(), event_log_, state_,
              options.config, subordinate_uids_, options.driver.replay.has_value(), marks_),
      usage_worker_(loop, "usage"),
      usage_store_(usage_worker_, usage_worker_, options.config.state.directory + "/usage.db",
                   store::kUsageMigrations),
      usage_adapter_(loop, telemetry_, energy_.meter(), usage_store_, leases_.leases()),
      alerts_(loop, query_worker_, state_, control_.control(), leases_.leases(),
              options.config.state.directory, std::move(alerts)),
      config_reloader_(query_worker_, options.read_config, options.config.control,
                       [this](Result<ConfigReloader::LoadedConfig> fresh) {
                         on_config_loaded(std::move(fresh));
                       }),
      users_(loop, name_worker_),
      token_db_(state_),
      tokens_(loop, token_db_),
      auth_throttle_(loop),
      certificates_(loop, revoked_of(options.config.tls)),
      alert_publisher_(event_hub_, alerts_.service()),
      authority_(authority_of(options.config)),
      group_(loop, name_worker_,
             [gid = authority_.control_gid](uid_t uid) {
               return gid ? processes::look_up_membership(uid, *gid) : Result<bool>(false);
             }),
      context_(api_context()),
      lease_publisher_(context_),
      router_(context_, authority_),
      server_(
          loop,
          [this](http::Request request, http::Reply reply) {
            router_.handle(std::move(request), std::move(reply));
          },
          limits_of(options.config, descriptor_limit())),
      listeners_(loop, [this](const std::string& address) { on_opened(address); }) {
  if (options.config.zeus.is_enabled()) {
    zeus_.emplace(loop, query_worker_, telemetry_, control_.control(), authority_, options.config,
                  subordinate_uids_, options.version);
  }
}

api::Context Daemon::api_context() {
  return {
      .telemetry = telemetry_,
      .events = event_hub_,
      .processes = process_tracker_.directory(),
      .history = history_,
      .process_recorder = process_recorder_,
      .bottleneck_recorder = bottleneck_recorder_,
      .energy = energy_.meter(),
      .control = control_.control(),
      .loop = loop_,
      .leases = leases_.leases(),
      .usage = usage_adapter_.recorder(),
      .alerts = alerts_.service(),
      .alert_sinks = alerts_,
      .alert_publisher = alert_publisher_,
      .tokens = tokens_,
      .auth_throttle = auth_throttle_,
      .certificates = certificates_,
      .loop_lag = loop_lag_.histogram(),
      .alert_cost = alerts_.evaluation_time(),
      .version = options_.version,
      .configuration = config::section_digests(options_.config),
      .metrics_prefix = options_.config.metrics.prefix,
      .metrics_dialect = dialect_of(options_.config.metrics.dialect),
      .tariff = {options_.config.energy.price_per_kwh, options_.config.energy.currency,
                 options_.config.energy.g_co2_per_kwh},
      .device_table = options_.device_table,
      .can_signal = &processes::can_signal,
      .reads_kernel_log = [this] { return kernel_log_ && kernel_log_->is_open(); },
      .holders_may_control = options_.config.lease.may_control,
      .quota_owner = [this](std::uint32_t uid) { return subordinate_uids_.owner_of(uid); },
      .user_name = [this](std::uint32_t uid) { return users_.name_of(uid); },
      .is_user_gone = [this](std::uint32_t uid) { return users_.is_gone(uid); },
      .lease_usage =
          [this](const lease::Lease& lease) {
            const auto use = usage_adapter_.recorder().usage_of(lease.id);
            return use ? std::optional(protocol::lease_usage_of(*use)) : std::nullopt;
          },
      .resolve_user_names =
          [this](const std::vector<std::uint32_t>& uids, std::function<void()> on_done) {
            users_.resolve(uids, std::move(on_done));
          },
      .check_group_member =
          [this](std::uint32_t uid, std::function<void(bool)> on_member) {
            group_.query(uid, std::move(on_member));
          },
  };
}

Result<void> Daemon::listen() {
  const config::Config::Server& server = options_.config.server;
  server_.allow_hosts(server.allowed_hosts);
  // A client that claims GPUs is bound to a process.
  server_.set_process_filter([](const http::Request& request) {
    return request.method == http::Method::post && request.path.starts_with("/api/gpu/leases");
  });
  // On the socket for leases, root may be a container's.
  server_.set_quota_policy([this](uid_t uid) { return subordinate_uids_.owner_of(uid); },
                           [this](const http::Peer& peer) {
                             return api::principal_of(peer, authority_).scope ==
                                    protocol::Scope::admin;
                           });
  for (const std::string& address : server.listen) {
    const auto bound = listen_on_address(server_, address);
    if (bound) {
      on_opened(*bound);
    } else if (bound.error().code == Errc::unavailable) {
      // An address may appear with its interface later. An address in use belongs to another
      // daemon.
      listeners_.add("server.listen " + address,
                     [this, address] { return listen_on_address(server_, address); });
    } else {
      Error error = bound.error();
      if (error.code == Errc::conflict) {
        error.hint = "gpuyard serve --listen 127.0.0.1:0  # any free port";
      }
      return error;
    }
  }
  const auto main = listen_on_socket(server_, server.socket, "the directory of the socket");
  if (!main) {
    Error error = main.error();
    const bool named = Environment::current().gpuyard_socket == server.socket;
    if (named && error.cause.empty()) error.cause = "GPUYARD_SOCKET is set";
    return error;
  }
  on_opened(*main);
  if (const std::string& socket = authority_.lease_socket; !socket.empty()) {
    listeners_.add("server.lease_socket " + socket, [this, socket] {
      return listen_on_socket(server_, socket, "the directory of the lease socket");
    });
  }
  listen_tls();
  if (zeus_) zeus_->listen(listeners_);
  return {};
}

void Daemon::listen_tls() {
  if (options_.config.tls.listen.empty()) return;
  tls_.emplace(loop_, query_worker_, options_.config);
  context_.tls = &tls_->tls_metrics();
  tls_->open([this] {
    for (const std::string& text : options_.config.tls.listen) {
      listeners_.add("tls.listen " + text, [this, text]() -> Result<std::string> {
        const auto endpoint = GPUYARD_TRY(http::parse_endpoint(text));
        const auto bound =
            server_.listen_tls(endpoint.address, endpoint.port, tls_->identity_source());
        if (!bound) return bound.error();
        return "https://" + http::Endpoint::tcp(bound->address, bound->port).text();
      });
    }
  });
}

void Daemon::on_opened(const std::string& address) {
  listen_addresses_.push_back(address);
  if (started_) log::info("listening on {}", address);
}

void Daemon::reload() {
  config_reloader_.begin();
  if (tls_) tls_->reload();
}

void Daemon::start() {
  started_ = true;
  context_.closed_listeners = &listeners_.closed();
  context_.marks_error = [this] { return marks_ ? marks_->error_text() : ""; };
  context_.event_drops = &event_collector_.drops();
  event_log_.set_listener([this](const events::Event& event) { on_event_added(event); });
  telemetry_.set_annotator([this](Snapshot& snapshot) {
    bottleneck_detector_.detect(
        snapshot, [this](const DeviceState& device) { return external_facts(device); });
  });
  telemetry_.set_listener([this](const telemetry::SnapshotPtr& now) { on_snapshot(now); });
  energy_.meter().start();
  control_.control().set_on_operation([this](const control::Operation& operation) {
    // The response to the caller goes first.
    loop_.post(lifetime_.guard([this, operation] {
      event_hub_.publish(protocol::kOperationEvent,
                         json::to_json(protocol::operation_of(operation)), operation.result.gpu);
    }));
    using enum control::ChangeOutcome;
    const control::ChangeResult& change = operation.result;
    if (operation.state != control::OperationState::done) return;
    if (change.outcome == reset || change.outcome == cleared) {
      telemetry_.acknowledge_errors(change.gpu);
    }
  });
  control_.start([this](const Error& why) {
    log::info("{}", why.text());
    context_.lacks.push_back(why.text());
  });
  leases_.set_on_change([this](const lease::Lease& now, lease::LeaseState before) {
    // The response to the caller goes first.
    loop_.post(lifetime_.guard([this, now, before] {
      usage_adapter_.on_lease_change(now, before);
      lease_publisher_.on_change(now);
      users_.resolve({now.uid}, [] {});
    }));
  });
  tokens_.start();
  users_.refresh_regularly([this] {
    std::vector<std::uint32_t> owners;
    for (const std::uint32_t uid : tokens_.users())
      owners.push_back(subordinate_uids_.owner_of(uid));
    return owners;
  });
  alerts_.watch_credentials({.tokens = &tokens_,
                             .tls = tls_ ? &tls_->tls_metrics() : nullptr,
                             .closed_listeners = &listeners_.closed(),
                             .slurm_error = &context_.slurm_error,
                             .plugin_report = &context_.plugin_report});
  leases_.start();
  lease_publisher_.start();
  alerts_.service().set_on_acknowledged(
      [this](const andon::Alert& alert, const andon::Rule& rule) { on_acknowledged(alert, rule); });
  alerts_.service().set_on_change(
      [this](const andon::Alert& alert) { alert_publisher_.on_change(alert); });
  alerts_.start();
  if (zeus_) zeus_->start();
  host_.start();
  service_manager_.start_watchdog(loop_, store_worker_);
}

// The machine's own log is about its own GPUs. Simulated GPUs have the same addresses.
void Daemon::follow_kernel_log(bool simulated) {
  auto file = std::exchange(kernel_log_file_, std::nullopt);
  const std::string& path = options_.config.events.kernel_log;
  const bool of_others = simulated && path == config::Config::Events{}.kernel_log;
  if (!file || of_others) return;
  if (!*file) {
    return log::info("no Xids from the kernel log, only the driver's own events: {}",
                     file->error().text());
  }
  kernel_log_.emplace(
      loop_, *std::move(*file),
      events::KernelLog::Listener{
          [this](const events::KernelXid& xid, TimePoint written) {
            event_collector_.on_kernel_xid(xid, written);
          },
          [this](const std::string& what) { event_collector_.on_events_lost(what); }});
}

void Daemon::on_no_driver(const Error& error) {
  follow_kernel_log(false);
  inventory_.reset();
  telemetry_.on_no_driver(error);
}

void Daemon::on_inventory(const Inventory& inventory) {
  event_collector_.on_inventory(inventory);
  follow_kernel_log(inventory.driver.simulated);
  inventory_ = inventory;
  machine_memory_.recall(machine_of(inventory.driver), [this] { publish_inventory(); });
}

// Simulated boards, recordings and another NVML are another machine.
std::string Daemon::machine_of(const DriverInfo& driver) const {
  if (options_.driver.replay) return "";
  if (driver.simulated) return kSimulatedMachine + options_.simulated_world();
  return options_.driver.path.empty() ? "this" : "nvml:" + options_.driver.path;
}

void Daemon::publish_inventory() {
  if (!inventory_) return;
  const Inventory inventory = *std::exchange(inventory_, std::nullopt);
  telemetry_.on_inventory(inventory);
  control_.on_inventory(inventory);
  // The kernel may report a board that the driver does not list. Another board in its slot has
  // taken its address.
  Inventory missing{inventory.driver, telemetry_.missing_boards()};
  std::erase_if(missing.devices, [&](const DeviceInfo& board) {
    return std::ranges::any_of(inventory.devices, [&](const DeviceInfo& info) {
      return is_same_pci_slot(info.pci_address, board.pci_address);
    });
  });
  event_collector_.on_inventory(missing);
}

// An acknowledgement says that the GPU may be used, or that a missing one was taken out for good.
void Daemon::on_acknowledged(const andon::Alert& alert, const andon::Rule& rule) {
  if (alert.gpu.empty()) return;
  if (is_about_memory_errors(rule, alert)) telemetry_.acknowledge_errors(alert.gpu);
  if (!is_about_presence(rule) || !telemetry_.remove_board(alert.gpu)) return;
  // Not inside the acknowledgement, whose answer has the alert as it fires.
  loop_.post(lifetime_.guard([this, gpu = alert.gpu] {
    alerts_.service().remove_gpu(gpu, "acknowledged: the GPU was removed from this machine");
  }));
}

void Daemon::on_host_down(const std::string& why) {
  inventory_.reset();
  telemetry_.on_host_down(why);
  control_.on_host_down(why);
}

void Daemon::on_snapshot(const telemetry::SnapshotPtr& snapshot) {
  if (tls_) tls_->update_counters(server_.counters());
  if (const auto why = renewal_.evaluate(*snapshot)) {
    loop_.post(lifetime_.guard([this, why = *why] { host_.restart(why); }));
  }
  event_hub_.set_snapshot(snapshot);
  bottleneck_publisher_.on_snapshot(*snapshot);
  for (events::Event& change : change_detector_.update(*snapshot))
    event_log_.add(std::move(change));
  for (events::Event& missing : machine_memory_.on_snapshot(*snapshot))
    event_log_.add(std::move(missing));
  process_tracker_.on_snapshot(*snapshot);
  history_.on_snapshot(*snapshot);
  bottleneck_recorder_.on_snapshot(*snapshot);
  process_recorder_.on_snapshot(
      *snapshot, process_tracker_.directory(), [this](const DeviceId& gpu) {
        for (const lease::Lease* lease : leases_.leases().leases_with_gpus()) {
          if (std::ranges::find(lease->gpus, gpu) != lease->gpus.end()) return lease->id;
        }
        return std::string();
      });
  energy_.meter().on_snapshot(*snapshot);
  // Runs before leases: a GPU that it quarantines is not granted from this reading on.
  alerts_.on_snapshot(*snapshot);
  leases_.on_snapshot(*snapshot, [this](const DeviceId& gpu) {
    if (!alerts_.service().is_open())
      return std::string("its stored alerts are still being loaded");
    const auto quarantine = alerts_.service().quarantine(gpu);
    return quarantine ? quarantine->text : std::string();
  });
  usage_adapter_.on_snapshot(*snapshot);
  if (std::exchange(ready_notified_, true)) return;
  const DriverState& driver = snapshot->driver;
  service_manager_.notify_ready(driver.initialised
                                    ? fmt::format("monitoring {} GPUs", snapshot->devices.size())
                                    : "no GPU: " + driver.why);
  if (options_.on_ready) options_.on_ready(*snapshot, listen_addresses_);
}

bottleneck::ExternalFacts Daemon::external_facts(const DeviceState& device) {
  bottleneck::ExternalFacts external;
  if (!leases_.leases().grant_error()) external.leased = leases_.leases().is_leased(device.info.id);
  const auto& list = device.sample.processes();
  const auto* const processes = list ? list->processes() : nullptr;
  if (processes == nullptr) return external;
  external.cpu_percent = 0;
  for (const GpuProcess& process : *processes) {
    const auto facts = process_tracker_.directory().find(process.pid);
    if (!facts || !(*facts)->cpu_percent) {
      external.cpu_percent.reset();  // that process may be the one
      break;
    }
    external.cpu_percent = std::max(*external.cpu_percent, *(*facts)->cpu_percent);
  }
  return external;
}

void Daemon::on_event_added(const events::Event& event) {
  event_hub_.publish(protocol::kDeviceEvent, json::to_json(gpu_event_of(event)), event.device,
                     event.severity);
}

void Daemon::on_config_loaded(Result<ConfigReloader::LoadedConfig> fresh) {
  if (!fresh) return log::error("configuration not reloaded: {}", fresh.error().text());
  const std::string what =
      fmt::format("{} rules, {} sinks{}{}", fresh->alerts.rules.size(), fresh->alerts.sinks.size(),
                  fresh->alerts.file.empty() ? "" : " from ", fresh->alerts.file);
  if (auto done = alerts_.replace(std::move(fresh->alerts)); !done) {
    return log::error("configuration not reloaded: {}", done.error().text());
  }
  for (const std::string& key : config::changed_restart_keys(options_.config, fresh->config)) {
    log::warning("{} has changed; it takes effect when the daemon restarts", key);
  }
  log::set_level(fresh->config.log.level);
  certificates_.set_revoked(revoked_of(fresh->config.tls));
  log::info("configuration reloaded: {}", what);
}

void Daemon::stop(std::function<void()> on_done) {
  service_manager_.notify_stopping();
  listeners_.stop();
  machine_memory_.flush();
  history_.flush();
  process_recorder_.flush();
  bottleneck_recorder_.flush();
  energy_.meter().stop();
  leases_.leases().stop();
  usage_adapter_.recorder().stop();
  // A client that waits for a command is told how it ended before the connections are closed.
  control_.stop([this, on_done = std::move(on_done)] {
    const auto last = [this, on_done] { server_.shutdown(kShutdownGrace, on_done); };
    zeus_ ? zeus_->stop(kShutdownGrace, last) : last();
  });
}

}  // namespace gpuyard::daemon
