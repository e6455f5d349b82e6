#include "daemon/alert_adapter.h"

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/identifiers.h"
#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/log.h"
#include "base/text.h"
#include "base/try.h"
#include "core/andon/alert.h"
#include "core/andon/alert_severity.h"
#include "core/andon/alert_storage.h"

namespace gpuyard::daemon {
namespace {

std::string own_name() {
  std::string name = host_name();
  return name.empty() ? "localhost" : name;
}

// Adds the processes that can be seen, of which a message names the first ones.
void add_unleased(const std::vector<lease::ObservedProcess>& observed, andon::LeaseFacts& facts) {
  constexpr std::size_t kMaxNamed = 3;
  std::vector<std::string> named;
  std::size_t count = 0;
  for (const lease::ObservedProcess& one : observed) {
    if (one.attribution != lease::ObservedProcess::Attribution::outsider) continue;
    if (++count > kMaxNamed) continue;
    named.push_back(fmt::format("PID {} ({}) of UID {}", one.pid, printable(one.command), one.uid));
  }
  if (count > kMaxNamed) named.push_back(fmt::format("{} more", count - kMaxNamed));
  facts.unleased_processes = count;
  if (count > 0) facts.unleased_text = fmt::format("({})", fmt::join(named, ", "));
}

}  // namespace

AlertAdapter::AlertAdapter(Loop& loop, Worker& query_worker, store::StateStore& state,
                           control::SettingController& control, const lease::LeaseManager& leases,
                           std::string state_directory, AlertConfig file)
    : loop_(loop),
      query_worker_(query_worker),
      state_(state),
      leases_(leases),
      host_(own_name()),
      config_(std::move(file)),
      db_(state),
      service_(loop, db_, *this, config_.rules),
      dispatcher_(
          loop, notify::make_sender_factory(loop, notify::make_worker_factory(loop)),
          {[this](const std::string&, const std::string& id) { on_delivery(id, std::nullopt); },
           [this](const std::string&, const std::string& id, const std::string& why) {
             on_delivery(id, why);
           }}),
      sink_tester_(loop, dispatcher_),
      node_(loop, query_worker, std::move(state_directory)),
      caps_(loop, control, service_) {
  if (auto done = dispatcher_.replace(config_.sinks); !done) log::error("{}", done.error().text());
  for (const notify::SinkConfig& sink : config_.sinks) {
    if (!sink.unusable_reason.empty())
      log::error("{}; its alerts wait until this is fixed", sink.unusable_reason);
  }
}

void AlertAdapter::start() {
  node_.start();
  poll_closed_sinks();
  service_.start();
}

Result<void> AlertAdapter::replace(AlertConfig file) {
  for (const notify::SinkConfig& sink : file.sinks) {
    const auto now = std::ranges::find(config_.sinks, sink.name, &notify::SinkConfig::name);
    const bool is_closed = now != config_.sinks.end() && !now->unusable_reason.empty();
    if (!sink.unusable_reason.empty() && !is_closed)
      return Error{Errc::invalid, sink.unusable_reason};
  }
  for (notify::SinkConfig& sink : undelivered_sinks(file)) {
    if (file.sinks.size() < notify::kMaxSinks) file.sinks.push_back(std::move(sink));
  }
  GPUYARD_TRY(dispatcher_.replace(file.sinks));
  config_ = std::move(file);
  service_.replace(config_.rules);
  poll_closed_sinks();
  return {};
}

void AlertAdapter::poll_closed_sinks() {
  sinks_timer_.reset();
  std::set<std::string> closed;
  for (const notify::SinkConfig& sink : config_.sinks) {
    if (!sink.unusable_reason.empty()) closed.insert(sink.name);
  }
  if (closed.empty()) return;
  sinks_timer_ = loop_.call_after(kSinkPollInterval, [this, closed = std::move(closed)] {
    const bool submitted = run_on_worker(
        query_worker_,
        [text = config_.text, file = config_.file, closed] {
          return notify::read_sinks(text, file, closed);
        },
        lifetime_.guard(
            [this, text = config_.text](const Result<std::vector<notify::SinkConfig>>& sinks) {
              on_sinks_read(text, sinks);
            }));
    if (!submitted) poll_closed_sinks();
  });
}

void AlertAdapter::on_sinks_read(const std::string& text,
                                 const Result<std::vector<notify::SinkConfig>>& sinks) {
  // A reload may have replaced them already.
  if (!sinks || text != config_.text) return poll_closed_sinks();
  bool changed = false;
  for (notify::SinkConfig& sink : config_.sinks) {
    if (sink.unusable_reason.empty()) continue;
    const auto fresh = std::ranges::find(*sinks, sink.name, &notify::SinkConfig::name);
    if (fresh == sinks->end() || fresh->unusable_reason == sink.unusable_reason) continue;
    sink = *fresh;
    changed = true;
    if (sink.unusable_reason.empty()) {
      log::info("Sink {} ({}) is open again", sink.name, sink.destination());
    } else {
      log::error("{}", sink.unusable_reason);
    }
  }
  if (changed) {
    if (auto done = dispatcher_.replace(config_.sinks); !done)
      log::error("{}", done.error().text());
  }
  poll_closed_sinks();
}

// The command of a dropped rule still runs once more, when its alert is over.
std::vector<notify::SinkConfig> AlertAdapter::undelivered_sinks(const AlertConfig& next) const {
  std::vector<notify::SinkConfig> some;
  for (const notify::SinkConfig& sink : config_.sinks) {
    const bool stays =
        std::ranges::find(next.sinks, sink.name, &notify::SinkConfig::name) != next.sinks.end();
    const auto& waiting = service_.outbox();
    const bool owes =
        std::ranges::any_of(waiting,
                            [&](const auto& one) { return one.second.sink == sink.name; }) ||
        std::ranges::any_of(service_.engine().firing_alerts(), [&](const andon::Alert& one) {
          return std::ranges::find(one.notified_sinks, sink.name) != one.notified_sinks.end();
        });
    if (is_sink_of_command(sink.name) && !stays && owes) some.push_back(sink);
  }
  return some;
}

void AlertAdapter::on_snapshot(const Snapshot& snapshot) {
  const TimePoint began = BootClock::now();
  auto leases = lease_facts(snapshot);
  add_plugin_facts(snapshot, leases);
  andon::Facts facts = facts_.collect(snapshot, leases, loop_.now());
  facts.node[andon::Signal::journal_down] = state_.is_failing() || service_.storage_error() ? 1 : 0;
  node_.read(dispatcher_.stats(), facts.node);
  service_.tick(facts);
  evaluation_time_.add(BootClock::now() - began);
  caps_.update(snapshot);
  publish_firing();
}

std::map<DeviceId, andon::LeaseFacts> AlertAdapter::lease_facts(const Snapshot& snapshot) const {
  std::map<DeviceId, andon::LeaseFacts> facts;
  const lease::GpuPool& pool = leases_.gpus();
  // If no GPU was ever leased or allocated, there are no unleased processes, only users.
  const bool has_only_users = leases_.last_fence() == 0 && !pool.allocator();
  if (leases_.grant_error() || has_only_users) return facts;
  const auto& unleased = pool.unleased().all();
  for (const DeviceState& device : snapshot.devices) {
    andon::LeaseFacts& gpu = facts[device.info.id];
    gpu.leased = leases_.is_leased(device.info.id);
    if (!pool.knows_unleased()) continue;
    const auto found = unleased.find(device.info.id);
    add_unleased(found != unleased.end() ? found->second : std::vector<lease::ObservedProcess>(),
                 gpu);
  }
  for (const lease::Lease* const lease : leases_.leases_with_gpus()) {
    for (const DeviceId& gpu : lease->gpus) {
      facts[gpu].lease = lease->id;
      facts[gpu].pod = lease->pod;
    }
  }
  return facts;
}

void AlertAdapter::add_plugin_facts(const Snapshot& snapshot,
                                    std::map<DeviceId, andon::LeaseFacts>& facts) const {
  // Until the stored alerts and cordons are read, a GPU that they withhold would pass for healthy.
  const bool is_loaded = service_.is_loaded() && leases_.has_loaded();
  const andon::PluginReport* const report = node_.access().plugin_report;
  if (report == nullptr || !is_loaded) return;
  for (const DeviceState& device : snapshot.devices) {
    const DeviceId& id = device.info.id;
    const auto hides = report->hides(device.info.uuid, loop_.now());
    if (!hides) continue;
    andon::LeaseFacts& gpu = facts[id];
    gpu.plugin_hides = hides;
    gpu.withheld = service_.quarantine(id) || leases_.gpus().cordon_of(id);
  }
}

notify::Notification AlertAdapter::notification_of(const andon::Alert& alert,
                                                   std::string id) const {
  notify::Notification notification;
  notification.id = std::move(id);
  notification.key = key_of(alert);
  notification.rule = alert.rule;
  const bool firing = alert.state == andon::AlertState::firing;
  notification.status = firing ? notify::Status::firing : notify::Status::resolved;
  notification.severity = static_cast<unsigned>(worst_severity(alert));
  notification.level = notify::level_of(notification.severity);
  notification.message = alert.message;
  notification.advice = alert.advice;
  if (!alert.gpu.empty()) {
    const bool displaced = service_.engine().is_index_reused(alert);
    notification.gpu = {displaced ? std::nullopt : alert.index, alert.gpu, alert.pci_address,
                        alert.gpu_name};
  }
  notification.host = host_;
  notification.started_at = alert.fired;
  if (alert.resolved) notification.ended_at = *alert.resolved;
  notification.simulated = alert.simulated;
  return notification;
}

std::vector<std::string> AlertAdapter::sinks_for(const andon::Alert& alert,
                                                 const andon::Rule& rule) {
  if (!rule.sinks.empty()) {
    const std::set<std::string> once(rule.sinks.begin(), rule.sinks.end());
    return {once.begin(), once.end()};
  }
  auto sinks = dispatcher_.sink_names_at(notify::level_of(static_cast<unsigned>(alert.severity)));
  std::erase_if(sinks, is_sink_of_command);
  return sinks;
}

std::string AlertAdapter::command_of(const andon::Rule& rule) {
  return rule.command.empty() ? std::string() : sink_of_command(rule.name);
}

andon::OutboxMessage AlertAdapter::make_message(const andon::Alert& alert,
                                                const std::string& sink) {
  const std::string id = new_id();
  return {id, sink, json::to_json(notification_of(alert, id)), 0};
}

void AlertAdapter::send(const andon::OutboxMessage& message) {
  auto notification =
      json::from_json<notify::Notification>(message.body, json::UnknownFields::ignore);
  if (!notification) {
    log::error("a stored notification for sink {} cannot be read: {}", message.sink,
               notification.error().text());
    return loop_.post(lifetime_.guard([this, id = message.id] { service_.mark_delivered(id); }));
  }
  dispatcher_.send(message.sink, *std::move(notification));
}

// Called when a message is delivered; `why` says why it never will be.
void AlertAdapter::on_delivery(const std::string& id, std::optional<std::string> why) {
  if (!sink_tester_.on_delivery(id, std::move(why))) service_.mark_delivered(id);
}

// Includes acknowledged and silenced alerts, if they were notified: Alertmanager takes an alert
// that is not sent again for resolved.
void AlertAdapter::publish_firing() {
  std::vector<notify::FiringNotification> firing;
  for (const andon::Alert& alert : service_.engine().firing_alerts()) {
    if (alert.notified_severity)
      firing.push_back({notification_of(alert, ""), alert.notified_sinks});
  }
  const bool any = !firing.empty();
  if (any || firing_published_) dispatcher_.set_firing(std::move(firing));
  firing_published_ = any;
}

std::vector<protocol::Sink> AlertAdapter::sinks() const {
  std::vector<protocol::Sink> all;
  for (const notify::SinkStats& one : dispatcher_.stats()) {
    protocol::Sink sink;
    sink.name = one.name;
    sink.kind = enum_name(one.kind);
    sink.where = one.destination;
    const auto config = std::ranges::find(config_.sinks, one.name, &notify::SinkConfig::name);
    if (config != config_.sinks.end()) sink.min_level = enum_name(config->min_level);
    sink.queued = static_cast<std::int64_t>(one.queued);
    sink.delivered_total = one.delivered_total;
    sink.retries_total = one.retries_total;
    sink.dead_letters_total = one.dead_letters_total;
    sink.failing_since = one.failing_since;
    sink.last_error = one.last_error;
    if (one.closed) sink.closed = true;
    all.push_back(std::move(sink));
  }
  return all;
}

void AlertAdapter::test(const std::string& sink, const std::string& by, OnTested on_tested) {
  std::vector<std::string> sinks = dispatcher_.sink_names();
  if (sink.empty()) std::erase_if(sinks, is_sink_of_command);  // a command would act, not tell
  if (!sink.empty()) {
    if (std::ranges::find(sinks, sink) == sinks.end()) {
      const std::string what = unknown_word("sink", sink, {sinks.begin(), sinks.end()});
      return loop_.post([what, on_tested = std::move(on_tested)] {
        on_tested(Error{Errc::not_found, what, "", "gpuyard alerts sinks"});
      });
    }
    sinks = {sink};
  }
  const auto make_notification = [&](std::string id) {
    notify::Notification test;
    test.id = std::move(id);
    test.key = "test/" + host_;
    test.rule = "test";
    test.severity = 0;
    test.level = notify::NotificationLevel::info;
    test.message = "Test notification of gpuyard on " + host_ + ", requested by " + by;
    test.advice = "Nothing is wrong; no action is needed.";
    test.host = host_;
    test.started_at = loop_.wall();
    test.test = true;
    return test;
  };
  sink_tester_.begin(sinks, make_notification, std::move(on_tested));
}

}  // namespace gpuyard::daemon
