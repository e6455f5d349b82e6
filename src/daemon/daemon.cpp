#include "daemon/daemon.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/json_writer.h"
#include "base/log.h"
#include "base/record.h"
#include "core/processes/identify.h"
#include "core/processes/users.h"
#include "daemon/config/keys.h"
#include "daemon/serve.h"
#include "faces/protocol/control.h"
#include "faces/protocol/energy.h"
#include "io/http/certificate.h"
#include "io/http/endpoint.h"
#include "io/store/migrations.h"

namespace gpuyard::daemon {
namespace {

constexpr Duration kFarewell = std::chrono::milliseconds(500);
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

bottleneck::Policy bottleneck_policy(const config::Config::Bottleneck& of) {
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
    const auto client = config::tls_client_of(text);
    if (!client) continue;
    access::Token grant;
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
  api::Authority authority(Environment::of_process().system_service ? 0 : ::geteuid());
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

Yard::Yard(http::IoLoop& loop, const ServeOptions& options, AlertConfig alerts,
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
      query_(loop, "query"),
      names_(loop, "names"),
      owners_(names_, options.config.processes.proc_root,
              options.driver.replay ? processes::OwnerWatch::Listed::in_a_recording
                                    : processes::OwnerWatch::Listed::now),
      intake_(loop, journal_,
              {[this](const DeviceEvent& event) {
                 telemetry_.on_event(event);
                 andon_.on_event(event);
               },
               [this](const DeviceEvent& event) {
                 telemetry_.on_echo(event);
                 andon_.on_echo(event);
               }}),
      bottlenecks_(bottleneck_policy(options.config.bottleneck)),
      event_hub_(journal_.epoch(), telemetry_.latest(), &owners_.book()),
      bottleneck_news_(event_hub_),
      history_books_(
          std::make_shared<store::HistoryDb>(options.config.state.directory + "/history.db")),
      history_(loop, query_, history_books_, boot_id()),
      stays_(query_, history_books_, boot_id()),
      spells_(query_, history_books_),
      store_(loop, "store"),
      state_(store_, query_, options.config.state.directory + "/state.db", store::kStateLayout),
      memory_(loop, state_, telemetry_, boot_id()),
      energy_(loop, telemetry_, state_),
      control_(loop, host_, telemetry_, state_, options.config, journal_.epoch(),
               way_to_setter(options.setter_address, setter_arguments(options, driver_descriptors)),
               options.version),
      marks_(connect_marks(options.config)),
      lease_looks_(loop, "lease"),
      leases_(loop, lease_looks_, telemetry_, control_.control(), journal_, state_, options.config,
              subordinate_uids_, options.driver.replay.has_value(), marks_),
      usage_(loop, "usage"),
      usage_books_(usage_, usage_, options.config.state.directory + "/usage.db",
                   store::kUsageLayout),
      use_(loop, telemetry_, energy_.meter(), usage_books_, leases_.leases()),
      andon_(loop, query_, state_, control_.control(), leases_.leases(),
             options.config.state.directory, std::move(alerts)),
      reload_(query_, options.reread, options.config.control,
              [this](Result<Reload::Fresh> fresh) { on_reread(std::move(fresh)); }),
      users_(loop, names_),
      token_books_(state_),
      tokens_(loop, token_books_),
      guesses_(loop),
      certificates_(loop, revoked_of(options.config.tls)),
      alert_news_(event_hub_, andon_.board()),
      authority_(authority_of(options.config)),
      group_(loop, names_,
             [gid = authority_.control_gid](uid_t uid) {
               return gid ? processes::look_up_membership(uid, *gid) : Result<bool>(false);
             }),
      context_(api_context()),
      news_(context_),
      router_(context_, authority_),
      server_(
          loop,
          [this](http::Request request, http::Reply reply) {
            router_.handle(std::move(request), std::move(reply));
          },
          limits_of(options.config, descriptor_limit())),
      doors_(loop, [this](const std::string& place) { on_opened(place); }) {
  if (options.config.zeus.on()) {
    zeus_.emplace(loop, query_, telemetry_, control_.control(), authority_, options.config,
                  subordinate_uids_, options.version);
  }
}

api::Context Yard::api_context() {
  return {
      .telemetry = telemetry_,
      .events = event_hub_,
      .processes = owners_.book(),
      .history = history_,
      .stays = stays_,
      .spells = spells_,
      .energy = energy_.meter(),
      .control = control_.control(),
      .loop = loop_,
      .leases = leases_.leases(),
      .use = use_.book(),
      .alerts = andon_.board(),
      .alert_sinks = andon_,
      .alert_news = alert_news_,
      .tokens = tokens_,
      .guesses = guesses_,
      .certificates = certificates_,
      .loop_lag = loop_lag_.histogram(),
      .alert_cost = andon_.cost(),
      .version = options_.version,
      .configuration = config::section_digests(options_.config),
      .metrics_prefix = options_.config.metrics.prefix,
      .metrics_dialect = dialect_of(options_.config.metrics.dialect),
      .tariff = {options_.config.energy.price_per_kwh, options_.config.energy.currency,
                 options_.config.energy.g_co2_per_kwh},
      .device_table = options_.device_table,
      .may_signal = &processes::may_signal,
      .reads_kernel_log = [this] { return kernel_log_ && kernel_log_->is_open(); },
      .holders_may_control = options_.config.lease.may_control,
      .person_behind = [this](std::uint32_t uid) { return subordinate_uids_.person(uid); },
      .user_name = [this](std::uint32_t uid) { return users_.name_of(uid); },
      .user_gone = [this](std::uint32_t uid) { return users_.is_gone(uid); },
      .lease_use =
          [this](const lease::Lease& lease) {
            const auto use = use_.book().of(lease.id);
            return use ? std::optional(protocol::lease_use_of(*use)) : std::nullopt;
          },
      .learn_users = [this](const std::vector<std::uint32_t>& uids,
                            std::function<void()> done) { users_.learn(uids, std::move(done)); },
      .ask_member = [this](std::uint32_t uid,
                           std::function<void(bool)> told) { group_.ask(uid, std::move(told)); },
  };
}

Result<void> Yard::listen() {
  const config::Config::Server& server = options_.config.server;
  server_.allow_hosts(server.allowed_hosts);
  // A client that claims GPUs is bound to a process.
  server_.ask_process_of([](const http::Request& request) {
    return request.method == http::Method::post && request.path.starts_with("/api/gpu/leases");
  });
  // On the socket for leases, root may be a container's.
  server_.share_by([this](uid_t uid) { return subordinate_uids_.person(uid); },
                   [this](const http::Peer& peer) {
                     return api::principal_of(peer, authority_).scope == protocol::Scope::admin;
                   });
  for (const std::string& address : server.listen) {
    const auto place = listen_at(server_, address);
    if (place) {
      on_opened(*place);
    } else if (place.error().code == Errc::unavailable) {
      // An address may appear with its interface later. An address in use belongs to another
      // daemon.
      doors_.add("server.listen " + address,
                 [this, address] { return listen_at(server_, address); });
    } else {
      Error error = place.error();
      if (error.code == Errc::conflict) {
        error.hint = "gpuyard serve --listen 127.0.0.1:0  # any free port";
      }
      return error;
    }
  }
  const auto main = listen_on_socket(server_, server.socket, "the directory of the socket");
  if (!main) {
    Error error = main.error();
    const bool named = Environment::of_process().gpuyard_socket == server.socket;
    if (named && error.cause.empty()) error.cause = "GPUYARD_SOCKET is set";
    return error;
  }
  on_opened(*main);
  if (const std::string& socket = authority_.lease_socket; !socket.empty()) {
    doors_.add("server.lease_socket " + socket, [this, socket] {
      return listen_on_socket(server_, socket, "the directory of the lease socket");
    });
  }
  listen_tls();
  if (zeus_) zeus_->listen(doors_);
  return {};
}

void Yard::listen_tls() {
  if (options_.config.tls.listen.empty()) return;
  tls_.emplace(loop_, query_, options_.config);
  context_.tls = &tls_->figures();
  tls_->open([this] {
    for (const std::string& text : options_.config.tls.listen) {
      doors_.add("tls.listen " + text, [this, text]() -> Result<std::string> {
        const auto endpoint = http::parse_endpoint(text);
        if (!endpoint) return endpoint.error();
        const auto bound = server_.listen_tls(endpoint->address, endpoint->port, tls_->door());
        if (!bound) return bound.error();
        return "https://" + http::Endpoint::tcp(bound->address, bound->port).text();
      });
    }
  });
}

void Yard::on_opened(const std::string& place) {
  places_.push_back(place);
  if (started_) log::info("listening on {}", place);
}

void Yard::reload() {
  reload_.begin();
  if (tls_) tls_->reload();
}

void Yard::start() {
  started_ = true;
  context_.closed_doors = &doors_.closed();
  context_.marks_trouble = [this] { return marks_ ? marks_->trouble() : ""; };
  context_.event_drops = &intake_.drops();
  journal_.on_added([this](const events::Event& event) { on_added(event); });
  telemetry_.before_published([this](Snapshot& snapshot) {
    bottlenecks_.judge(snapshot, [this](const DeviceState& device) { return around(device); });
  });
  telemetry_.on_published([this](const telemetry::SnapshotPtr& now) { on_snapshot(now); });
  energy_.meter().start();
  control_.control().on_operation([this](const control::Operation& operation) {
    event_hub_.publish(protocol::kOperationEvent, json::to_json(protocol::operation_of(operation)),
                       operation.change.gpu);
    using enum control::Outcome;
    const control::Change& change = operation.change;
    if (operation.state != control::OperationState::done) return;
    if (change.outcome == reset || change.outcome == cleared) {
      telemetry_.acknowledge_errors(change.gpu);
    }
  });
  control_.start();
  leases_.on_change([this](const lease::Lease& now, lease::State before) {
    use_.on_lease(now, before);
    news_.on_change(now);
    users_.learn({now.uid}, [] {});
  });
  tokens_.start();
  users_.follow([this] {
    std::vector<std::uint32_t> persons;
    for (const std::uint32_t uid : tokens_.users())
      persons.push_back(subordinate_uids_.person(uid));
    return persons;
  });
  andon_.look_at_doors({.tokens = &tokens_,
                        .tls = tls_ ? &tls_->figures() : nullptr,
                        .closed = &doors_.closed(),
                        .slurm_trouble = &context_.slurm_trouble});
  leases_.start();
  news_.start();
  andon_.board().on_acknowledged(
      [this](const andon::Alert& alert, const andon::Rule& rule) { on_acknowledged(alert, rule); });
  andon_.board().on_change([this](const andon::Alert& alert) { alert_news_.on_change(alert); });
  andon_.start();
  if (zeus_) zeus_->start();
  host_.start();
  manager_.watch(loop_, store_);
}

// The machine's own log tells of its own GPUs. Simulated GPUs have the same addresses.
void Yard::follow_kernel_log(bool simulated) {
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
      events::KernelLog::Listener{[this](const events::KernelXid& xid, TimePoint written) {
                                    intake_.on_kernel_xid(xid, written);
                                  },
                                  [this](const std::string& what) { intake_.on_lost(what); }});
}

void Yard::on_no_driver(const Error& error) {
  follow_kernel_log(false);
  fleet_.reset();
  telemetry_.on_no_driver(error);
}

void Yard::on_fleet(const Fleet& fleet) {
  intake_.on_fleet(fleet);
  follow_kernel_log(fleet.driver.simulated);
  fleet_ = fleet;
  memory_.recall(machine_of(fleet.driver), [this] { list_gpus(); });
}

// Simulated boards, recordings and another NVML are another machine.
std::string Yard::machine_of(const DriverInfo& driver) const {
  if (options_.driver.replay) return "";
  if (driver.simulated) return kSimulatedMachine + options_.simulated_world();
  return options_.driver.path.empty() ? "this" : "nvml:" + options_.driver.path;
}

void Yard::list_gpus() {
  if (!fleet_) return;
  const Fleet fleet = *std::exchange(fleet_, std::nullopt);
  telemetry_.on_fleet(fleet);
  control_.on_fleet(fleet);
  // The kernel may tell of a board that the driver does not list. Another board in its slot has
  // taken its address.
  Fleet missing{fleet.driver, telemetry_.missing_boards()};
  std::erase_if(missing.devices, [&](const DeviceInfo& board) {
    return std::ranges::any_of(fleet.devices, [&](const DeviceInfo& info) {
      return same_pci_slot(info.pci_address, board.pci_address);
    });
  });
  intake_.on_fleet(missing);
}

// An acknowledgement says that the GPU may be used, or that a missing one was taken out for good.
void Yard::on_acknowledged(const andon::Alert& alert, const andon::Rule& rule) {
  if (alert.gpu.empty()) return;
  if (is_about_memory_errors(rule, alert)) telemetry_.acknowledge_errors(alert.gpu);
  if (!is_about_presence(rule) || !telemetry_.take_out(alert.gpu)) return;
  // Not inside the acknowledgement, whose answer has the alert as it fires.
  loop_.post(here_.guard([this, gpu = alert.gpu] {
    andon_.board().take_out(gpu, "acknowledged: the GPU was removed from this machine");
  }));
}

void Yard::on_host_down(const std::string& why) {
  fleet_.reset();
  telemetry_.on_host_down(why);
  control_.on_host_down(why);
}

void Yard::on_snapshot(const telemetry::SnapshotPtr& snapshot) {
  if (tls_) tls_->note(server_.counters());
  if (const auto why = renewal_.note(*snapshot)) {
    loop_.post(here_.guard([this, why = *why] { host_.renew(why); }));
  }
  event_hub_.show(snapshot);
  bottleneck_news_.on_snapshot(*snapshot);
  for (events::Event& change : changes_.note(*snapshot)) journal_.add(std::move(change));
  for (events::Event& missing : memory_.on_snapshot(*snapshot)) journal_.add(std::move(missing));
  owners_.on_snapshot(*snapshot);
  history_.on_snapshot(*snapshot);
  spells_.on_snapshot(*snapshot);
  stays_.on_snapshot(*snapshot, owners_.book(), [this](const DeviceId& gpu) {
    for (const lease::Lease* lease : leases_.leases().with_gpus()) {
      if (std::ranges::find(lease->gpus, gpu) != lease->gpus.end()) return lease->id;
    }
    return std::string();
  });
  energy_.meter().on_snapshot(*snapshot);
  // Runs before leases: a GPU that it quarantines is not granted from this reading on.
  andon_.on_snapshot(*snapshot);
  leases_.on_snapshot(*snapshot, [this](const DeviceId& gpu) {
    if (!andon_.board().looking()) return std::string("its stored alerts are still being loaded");
    const auto quarantine = andon_.board().quarantine(gpu);
    return quarantine ? quarantine->text : std::string();
  });
  use_.on_snapshot(*snapshot);
  if (std::exchange(told_ready_, true)) return;
  const DriverState& driver = snapshot->driver;
  manager_.ready(driver.initialised ? fmt::format("monitoring {} GPUs", snapshot->devices.size())
                                    : "no GPU: " + driver.why);
  if (options_.on_ready) options_.on_ready(*snapshot, places_);
}

bottleneck::Around Yard::around(const DeviceState& device) {
  bottleneck::Around around;
  if (!leases_.leases().closed()) around.leased = leases_.leases().leased(device.info.id);
  const auto& list = device.sample.processes();
  const auto* const processes = list ? list->processes() : nullptr;
  if (processes == nullptr) return around;
  around.cpu_percent = 0;
  for (const GpuProcess& process : *processes) {
    const auto facts = owners_.book().find(process.pid);
    if (!facts || !(*facts)->cpu_percent) {
      around.cpu_percent.reset();  // that process may be the one
      break;
    }
    around.cpu_percent = std::max(*around.cpu_percent, *(*facts)->cpu_percent);
  }
  return around;
}

void Yard::on_added(const events::Event& event) {
  event_hub_.publish(protocol::kDeviceEvent, json::to_json(gpu_event_of(event)), event.device,
                     event.severity);
}

void Yard::on_reread(Result<Reload::Fresh> fresh) {
  if (!fresh) return log::error("configuration not reloaded: {}", fresh.error().text());
  const std::string what =
      fmt::format("{} rules, {} sinks{}{}", fresh->alerts.rules.size(), fresh->alerts.sinks.size(),
                  fresh->alerts.file.empty() ? "" : " from ", fresh->alerts.file);
  if (auto done = andon_.replace(std::move(fresh->alerts)); !done) {
    return log::error("configuration not reloaded: {}", done.error().text());
  }
  for (const std::string& key : config::restart_keys_that_differ(options_.config, fresh->config)) {
    log::warning("{} has changed; it takes effect when the daemon restarts", key);
  }
  log::set_level(fresh->config.log.level);
  certificates_.revoke(revoked_of(fresh->config.tls));
  log::info("configuration reloaded: {}", what);
}

void Yard::stop(std::function<void()> done) {
  manager_.stopping();
  doors_.stop();
  memory_.put_away();
  history_.put_away();
  stays_.put_away();
  spells_.put_away();
  energy_.meter().stop();
  leases_.leases().stop();
  use_.book().stop();
  // A client that waits for a command hears how it ended before the connections are closed.
  control_.control().stop([this, done = std::move(done)] {
    const auto last = [this, done] { server_.shutdown(kFarewell, done); };
    zeus_ ? zeus_->stop(kFarewell, last) : last();
  });
}

}  // namespace gpuyard::daemon
