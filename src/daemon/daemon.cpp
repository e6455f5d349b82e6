#include "daemon/daemon.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/proc_stat.h"
#include "daemon/config/keys.h"
#include "daemon/mark_link.h"
#include "io/store/migrations.h"

namespace gpuyard::daemon {
namespace {

std::vector<std::string> setter_arguments(const ServeOptions& options, rlim_t descriptors) {
  auto arguments = driver_arguments(options, descriptors);
  arguments.insert(arguments.end(), options.setter_arguments.begin(),
                   options.setter_arguments.end());
  return arguments;
}

}  // namespace

Daemon::Daemon(http::IoLoop& loop, const ServeOptions& options, AlertConfig alerts,
               rlim_t driver_descriptors)
    : loop_(loop),
      options_(options),
      loop_lag_(loop),
      driver_(loop, options, driver_descriptors),
      workers_(loop),
      recorders_(loop, workers_, options.config, options.driver.replay.has_value(), boot_id()),
      state_(workers_.store, workers_.query, options.config.state.directory + "/state.db",
             store::kStateMigrations),
      machine_memory_(loop, state_, driver_.telemetry(), boot_id()),
      energy_(loop, driver_.telemetry(), state_),
      control_(
          loop, driver_.host(), driver_.telemetry(), state_, options.config,
          driver_.event_log().epoch(),
          make_setter_spawn(options.setter_address, setter_arguments(options, driver_descriptors)),
          options.version),
      leases_(loop, workers_.lease, driver_.telemetry(), control_.control(), driver_.event_log(),
              state_, options.config, subordinate_uids_, options.driver.replay.has_value(),
              make_mark_client(options.config)),
      usage_(loop, driver_.telemetry(), energy_.meter(), workers_.usage,
             options.config.state.directory, leases_.leases()),
      alerts_(loop, workers_.query, state_, control_.control(), leases_.leases(),
              options.config.state.directory, std::move(alerts)),
      config_reloader_(workers_.query, options.read_config, options.config.control,
                       [this](Result<ConfigReloader::LoadedConfig> fresh) {
                         on_config_loaded(std::move(fresh));
                       }),
      api_(loop, options, workers_, subordinate_uids_,
           {.driver = driver_,
            .recorders = recorders_,
            .state = state_,
            .energy = energy_,
            .control = control_,
            .leases = leases_,
            .usage = usage_,
            .alerts = alerts_,
            .loop_lag = loop_lag_.histogram()}) {
  add_snapshot_consumers();
}

void Daemon::add_snapshot_consumers() {
  using telemetry::SnapshotPtr;
  snapshot_consumers_ = {
      {"driver", [this](const SnapshotPtr& now) { driver_.on_snapshot(*now); }},
      {"api", [this](const SnapshotPtr& now) { api_.on_snapshot(now); }},
      {"changes",
       [this](const SnapshotPtr& now) { recorders_.record_changes(*now, driver_.event_log()); }},
      {"machine memory",
       [this](const SnapshotPtr& now) {
         for (events::Event& missing : machine_memory_.on_snapshot(*now))
           driver_.event_log().add(std::move(missing));
       }},
      {"recorders",
       [this](const SnapshotPtr& now) { recorders_.on_snapshot(*now, leases_.leases()); }},
      {"energy", [this](const SnapshotPtr& now) { energy_.meter().on_snapshot(*now); }},
      // Before leases: a GPU that it quarantines is not granted from this reading on.
      {"alerts", [this](const SnapshotPtr& now) { alerts_.on_snapshot(*now); }},
      {"leases",
       [this](const SnapshotPtr& now) {
         leases_.on_snapshot(*now, [this](const DeviceId& gpu) { return quarantine_reason(gpu); });
       }},
      // After the meter, whose joules it divides among leases.
      {"usage", [this](const SnapshotPtr& now) { usage_.on_snapshot(*now); }},
      {"readiness", [this](const SnapshotPtr& now) { notify_ready(*now); }},
  };
}

// An alert ends only by newer readings.
bool Daemon::is_needed(const DeviceId& gpu) {
  if (leases_.leases().is_leased(gpu)) return true;
  const auto firing = alerts_.service().engine().firing_alerts();
  return std::ranges::any_of(firing, [&](const andon::Alert& one) { return one.gpu == gpu; });
}

std::string Daemon::quarantine_reason(const DeviceId& gpu) const {
  if (!alerts_.service().is_open()) return "its stored alerts are still being loaded";
  const auto quarantine = alerts_.service().quarantine(gpu);
  return quarantine ? quarantine->text : std::string();
}

void Daemon::notify_ready(const Snapshot& snapshot) {
  if (std::exchange(ready_notified_, true)) return;
  const DriverState& driver = snapshot.driver;
  service_manager_.notify_ready(driver.initialised
                                    ? fmt::format("monitoring {} GPUs", snapshot.devices.size())
                                    : "no GPU: " + driver.why);
  if (options_.on_ready) options_.on_ready(snapshot, listen_addresses());
}

Result<void> Daemon::listen() {
  leases_.connect_marks();
  return api_.listen();
}

void Daemon::reload() {
  config_reloader_.begin();
  api_.reload_certificate();
}

void Daemon::start() {
  driver_.event_log().set_listener([this](const events::Event& event) { api_.on_event(event); });
  driver_.telemetry().set_annotator(
      [this](Snapshot& snapshot) { recorders_.annotate(snapshot, leases_.leases()); });
  driver_.telemetry().set_listener([this](const telemetry::SnapshotPtr& now) {
    for (const auto& [name, consume] : snapshot_consumers_) consume(now);
  });
  energy_.meter().start();
  control_.control().set_on_operation([this](const control::Operation& operation) {
    post_after_response([this, operation] { api_.on_operation(operation); });
    using enum control::ChangeOutcome;
    const control::ChangeResult& change = operation.result;
    if (operation.state != control::OperationState::done) return;
    if (change.outcome == reset || change.outcome == cleared) {
      driver_.telemetry().acknowledge_errors(change.gpu);
    }
  });
  control_.start([this](const Error& why) {
    log::info("{}", why.text());
    api_.add_missing_restrictions({why.text()});
  });
  leases_.set_on_change([this](const lease::Lease& now, lease::LeaseState before) {
    post_after_response([this, now, before] {
      usage_.on_lease_change(now, before);
      api_.on_lease_change(now);
    });
  });
  api_.start();
  leases_.start();
  alerts_.service().set_on_acknowledged(
      [this](const andon::Alert& alert, const andon::Rule& rule) { on_acknowledged(alert, rule); });
  alerts_.start();
  driver_.start({.memory = machine_memory_, .control = control_, .alerts = alerts_},
                [this](const DeviceId& gpu) { return is_needed(gpu); });
  service_manager_.start_watchdog(loop_, workers_.store);
}

// Runs the work after the response to the caller. The response is posted after this call, and
// before the second post.
void Daemon::post_after_response(std::function<void()> work) {
  loop_.post(
      lifetime_.guard([this, work = std::move(work)] { loop_.post(lifetime_.guard(work)); }));
}

// An acknowledgement says that the GPU may be used, or that a missing one was taken out for good.
void Daemon::on_acknowledged(const andon::Alert& alert, const andon::Rule& rule) {
  if (alert.gpu.empty()) return;
  if (is_about_memory_errors(rule, alert)) driver_.telemetry().acknowledge_errors(alert.gpu);
  if (!is_about_presence(rule) || !driver_.telemetry().remove_board(alert.gpu)) return;
  // Not inside the acknowledgement, whose answer has the alert as it fires.
  loop_.post(lifetime_.guard([this, gpu = alert.gpu] {
    alerts_.service().remove_gpu(gpu, "acknowledged: the GPU was removed from this machine");
  }));
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
  api_.set_revoked(fresh->config.tls);
  log::info("configuration reloaded: {}", what);
}

void Daemon::stop(std::function<void()> on_done) {
  service_manager_.notify_stopping();
  api_.stop_opening();
  machine_memory_.flush();
  recorders_.flush();
  energy_.meter().stop();
  leases_.leases().stop();
  usage_.recorder().stop();
  // A client that waits for a command is told how it ended before the connections are closed.
  control_.stop([this, on_done = std::move(on_done)] { api_.stop(on_done); });
}

}  // namespace gpuyard::daemon
