// The routes of alerts: what fires, and what users do about it. Andon decides what fires, and why.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/identifiers.h"
#include "base/saturated.h"
#include "base/text.h"
#include "base/try.h"
#include "faces/api/alert_view.h"
#include "faces/api/bound_route.h"
#include "faces/api/context.h"
#include "faces/api/gpu_names.h"
#include "faces/api/query_queue.h"
#include "faces/api/responder.h"
#include "gpu/device/fitness.h"

namespace gpuyard::api {
namespace {

std::optional<protocol::AlertGpu> gpu_view(const AlertApi& api, const DeviceId& id) {
  if (id.empty()) return std::nullopt;
  for (const DeviceState& device : api.telemetry.latest()->devices) {
    if (device.info.id != id) continue;
    return protocol::AlertGpu{own_index(device.info), id, device.info.pci_address,
                              device.info.name};
  }
  return protocol::AlertGpu{std::nullopt, id, "", ""};
}

Result<void> check_visible(const Principal& principal, const DeviceId& gpu) {
  if (principal.can_see(gpu)) return {};
  return Error{Errc::denied, gpu.empty()
                                 ? "this concerns all GPUs, but the token is limited to some"
                                 : "the token does not include that GPU"};
}

bool is_gpu_uuid(const AlertApi&, const std::string& name) {
  return name.starts_with("GPU-");
}

bool has_alert(const AlertApi& api, const std::string& name) {
  return std::ranges::count(api.alerts.engine().firing_alerts(), name, &andon::Alert::gpu) > 0;
}

// Returns the GPU of this name; "" names none. A GPU that is gone is found by its UUID, if `known`
// says that it exists.
Result<DeviceId> resolve_alert_gpu(const AlertApi& api, const std::string& name,
                                   bool (*known)(const AlertApi&, const std::string&)) {
  if (name.empty()) return DeviceId{};
  const auto found = resolve_gpus(*api.telemetry.latest(), name);
  if (!found) {
    if (known(api, name)) return DeviceId(name);
    return found.error();
  }
  if (found->size() != 1) return Error{Errc::invalid, "give one GPU, or none for all GPUs"};
  return found->front().id;
}

// Returns the GPUs' ids with commas, including those of GPUs that are gone.
Result<std::string> resolve_alert_gpus(const AlertApi& api, std::string_view names) {
  std::string ids;
  while (!names.empty()) {
    const std::string_view name = take_until(',', names);
    if (name.empty()) return Error{Errc::invalid, "the list of GPUs contains an empty name"};
    const auto gpu = GPUYARD_TRY(resolve_alert_gpu(api, std::string(name), is_gpu_uuid));
    ids.append(ids.empty() ? "" : ",").append(gpu);
  }
  return ids;
}

// Restricts the alerts to the GPUs that the caller's token is for.
Result<void> restrict_to_visible(const Principal& principal, std::string& gpus) {
  if (principal.gpus.empty()) return {};
  if (gpus.empty()) gpus = fmt::format("{}", fmt::join(principal.gpus, ","));
  for (std::string_view rest = gpus; !rest.empty();) {
    GPUYARD_TRY(check_visible(principal, DeviceId(take_until(',', rest))));
  }
  return {};
}

Result<void> check_rule(const AlertApi& api, const std::string& name) {
  const auto& rules = api.alerts.engine().rules();
  if (name.empty() || find_rule(rules, name) != nullptr) return {};
  std::vector<std::string_view> known;
  for (const andon::Rule& rule : rules) known.push_back(rule.name);
  return Error{Errc::not_found, unknown_word("rule", name, known), "", "gpuyard alerts rules"};
}

Result<andon::Silence> make_silence(const AlertApi& api, const RouteCall& call,
                                    const protocol::SilenceRequest& body) {
  const std::string comment = body.comment.value_or("");
  const std::string rule = body.rule.value_or("");
  GPUYARD_TRY(check_rule(api, rule));
  auto gpu = GPUYARD_TRY(resolve_alert_gpu(api, body.gpu.value_or(""), has_alert));
  GPUYARD_TRY(check_visible(call.principal, gpu));
  const WallTime now = api.loop.wall();
  const auto length =
      std::chrono::duration_cast<std::chrono::milliseconds>(duration_from_seconds(body.for_s));
  return andon::Silence{new_id(), rule, gpu, call.principal.name(), comment, now, now + length};
}

// Names what no rule can evaluate now: otherwise an empty list of alerts would claim more than is
// known.
void add_unknown_notes(AlertApi& api, const Principal& principal, std::vector<std::string>& notes) {
  const telemetry::SnapshotPtr snapshot = api.telemetry.latest();
  if (!snapshot->driver.initialised) {
    notes.push_back("no GPU can be assessed: " + snapshot->driver.why);
    return;
  }
  for (const DeviceState& device : snapshot->devices) {
    if (!principal.can_see(device.info.id)) continue;
    const Fitness fitness = fitness_of(device);
    switch (fitness.verdict) {
      case Verdict::good:
        break;
      case Verdict::bad:
        if (device.condition == DeviceCondition::responsive || is_lost(device)) break;
        notes.push_back(
            fmt::format("GPU {} cannot be assessed: {}", device.info.index, device.why));
        break;
      case Verdict::unknown:
        notes.push_back(fmt::format("GPU {}: {}", device.info.index, fitness.why));
    }
  }
}

void get_alerts(AlertApi& api, const RouteCall& call, const NoParams&,
                const Responder<protocol::Alerts>& respond) {
  const andon::AlertService& alerts = api.alerts;
  protocol::Alerts all;
  all.simulated = is_simulated(api.telemetry);
  for (const andon::Alert& alert : alerts.engine().firing_alerts()) {
    if (!call.principal.can_see(alert.gpu)) continue;
    all.alerts.push_back(alert_view(alerts, alert));
  }
  for (const andon::PendingAlert& one : alerts.engine().pending_alerts(api.loop.now())) {
    if (!call.principal.can_see(one.gpu)) continue;
    all.pending.push_back({one.rule, gpu_view(api, one.gpu), one.value,
                           to_seconds(one.pending_duration), to_seconds(one.hold)});
  }
  if (const auto error = alerts.storage_error()) {
    all.notes.push_back(
        "alerts are sent, but not stored, so they would be lost when gpuyard restarts: " +
        error->text());
  }
  if (!alerts.is_open()) all.notes.emplace_back("stored alerts are still being loaded");
  add_unknown_notes(api, call.principal, all.notes);
  respond(std::move(all));
}

using StoredAlerts = std::vector<andon::Alert>;

void query_history(AlertApi& api, const RouteCall& call, const auto& respond,
                   const andon::AlertHistoryQuery& query,
                   std::function<void(const Result<StoredAlerts>&)> on_alerts) {
  const auto submit = [&api, query](std::function<void(Result<StoredAlerts>)> on_done) {
    return api.alerts.query_history(query, std::move(on_done));
  };
  enqueue_query<StoredAlerts>(api.queries, call, respond, submit, std::move(on_alerts));
}

void get_alert_history(AlertApi& api, const RouteCall& call,
                       const protocol::AlertHistoryQuery& query,
                       const Responder<protocol::AlertHistory>& respond) {
  andon::AlertHistoryQuery history_query;
  history_query.limit = query.limit.value_or(history_query.limit);
  auto gpus = resolve_alert_gpus(api, query.gpu.value_or(""));
  if (!gpus) return respond(std::move(gpus).error());
  history_query.gpus = *std::move(gpus);
  if (auto may = restrict_to_visible(call.principal, history_query.gpus); !may) {
    return respond(std::move(may).error());
  }
  history_query.rule = query.rule.value_or("");
  history_query.before = query.before;
  const auto answer = [&api, respond,
                       rule = history_query.rule](const Result<StoredAlerts>& alerts) {
    if (!alerts) return respond(Error{Errc::unavailable, alerts.error().text()});
    // A rule that was removed may still have a history.
    if (auto known = check_rule(api, rule); !known && alerts->empty()) {
      return respond(std::move(known).error());
    }
    protocol::AlertHistory history{{1, is_simulated(api.telemetry)}, {}};
    for (const andon::Alert& one : *alerts) {
      history.alerts.push_back(alert_view(api.alerts, one));
    }
    respond(std::move(history));
  };
  query_history(api, call, respond, history_query, answer);
}

void get_alert(AlertApi& api, const RouteCall& call, const protocol::AlertName& name,
               const Responder<protocol::AlertAnswer>& respond) {
  const auto answer = [&api, caller = call.principal, respond](const andon::Alert& alert) {
    if (auto may = check_visible(caller, alert.gpu); !may) return respond(may.error());
    respond(protocol::AlertAnswer{{1, is_simulated(api.telemetry)}, alert_view(api.alerts, alert)});
  };
  if (const andon::Alert* known = api.alerts.find(name.alert)) return answer(*known);
  andon::AlertHistoryQuery query;
  query.limit = 1;
  query.before = name.alert + 1;
  const auto found = [name, respond, answer](const Result<StoredAlerts>& newest) {
    if (!newest) return respond(Error{Errc::unavailable, newest.error().text()});
    if (!newest->empty() && newest->front().number == name.alert) return answer(newest->front());
    respond(Error{
        Errc::not_found,
        fmt::format("alert {} not found; it may have been removed from the history", name.alert)});
  };
  query_history(api, call, respond, query, found);
}

// A change that could not be saved on the disk is in force all the same.
template <class T>
bool is_in_force(const Result<T>& result) {
  return result || result.error().code == Errc::unavailable;
}

// The action about a GPU, or about none. Empty: nothing is changed.
using AlertAction = std::optional<std::pair<std::string, DeviceId>>;

void report_alert_action(const RouteCall& call, const AlertAction& action) {
  if (!action) return call.report_no_change();
  if (action->second.empty()) return call.report_action(action->first);
  call.report_action(action->first, std::vector{action->second});
}

std::string with_note(std::string action, const std::string& note) {
  return note.empty() ? action : fmt::format("{}: {}", action, note);
}

AlertAction acknowledge_action_of(const RouteCall& call, const andon::Alert* alert,
                                  const std::string& note) {
  if (alert == nullptr) return std::nullopt;
  const auto& already = alert->acknowledged;
  if (already && already->by == call.principal.name() && already->note == note) {
    return std::nullopt;
  }
  const auto action = fmt::format("acknowledge alert {} ({})", alert->number, alert->rule);
  return std::pair(with_note(action, note), alert->gpu);
}

// "every alert", or "hot".
std::string silenced_rule(const andon::Silence& silence) {
  return silence.rule.empty() ? "all alerts" : silence.rule;
}

void acknowledge_alert(AlertApi& api, const RouteCall& call, const protocol::AlertName& name,
                       const protocol::AcknowledgeRequest& body,
                       const Responder<protocol::AlertAnswer>& respond) {
  const std::string note = body.note.value_or("");
  // An alert that is over can no longer be acknowledged, whichever GPU it was of.
  const andon::Alert* known = api.alerts.find(name.alert);
  const auto may = known == nullptr ? Result<void>() : check_visible(call.principal, known->gpu);
  if (!may) return respond(may.error());
  const auto action = acknowledge_action_of(call, known, note);
  api.alerts.acknowledge(
      name.alert, {call.principal.name(), note, api.loop.wall()},
      [&api, call, action, respond](const Result<andon::Alert>& alert) {
        if (is_in_force(alert)) report_alert_action(call, action);
        if (!alert) return respond(alert.error());
        respond(protocol::AlertAnswer{{1, is_simulated(api.telemetry)},
                                      alert_view(api.alerts, *alert)});
      },
      requester_of(call));
}

protocol::Silences silences_of(const AlertApi& api) {
  return {{1, is_simulated(api.telemetry)}, api.alerts.silences().all()};
}

void get_silences(AlertApi& api, const NoParams&, const Responder<protocol::Silences>& respond) {
  respond(silences_of(api));
}

void put_silence(AlertApi& api, const RouteCall& call, const NoParams&,
                 const protocol::SilenceRequest& body,
                 const Responder<protocol::Silence>& respond) {
  const auto silence = make_silence(api, call, body);
  if (!silence) return respond(silence.error());
  const AlertAction action = std::pair(
      with_note(
          fmt::format("silence {} until {}", silenced_rule(*silence), to_rfc3339(silence->until)),
          silence->comment),
      silence->gpu);
  api.alerts.silence(
      *silence,
      [call, action, respond](const Result<andon::Silence>& put) {
        if (is_in_force(put)) report_alert_action(call, action);
        if (!put) return respond(put.error());
        respond(*put);
      },
      requester_of(call));
}

void end_silence(AlertApi& api, const RouteCall& call, const protocol::SilenceName& name,
                 const Responder<protocol::Silences>& respond) {
  AlertAction action;
  const auto id = api.alerts.silences().find_id(name.silence);
  for (const andon::Silence& one : api.alerts.silences().all()) {
    if (one.id != id) continue;
    action =
        std::pair(fmt::format("end the silence of {} by {}", silenced_rule(one), one.by), one.gpu);
  }
  api.alerts.unsilence(
      name.silence,
      [&api, call, action, respond](const Result<void>& result) {
        if (is_in_force(result)) report_alert_action(call, action);
        if (!result) return respond(result.error());
        respond(silences_of(api));
      },
      requester_of(call));
}

void get_rules(AlertApi& api, const NoParams&, const Responder<protocol::Rules>& respond) {
  const andon::Rules& rules = api.alerts.engine().rules();
  respond(protocol::Rules{
      {1, is_simulated(api.telemetry)}, api.alert_sinks.file(), {rules.begin(), rules.end()}});
}

void get_sinks(AlertApi& api, const NoParams&, const Responder<protocol::Sinks>& respond) {
  respond(protocol::Sinks{{1, is_simulated(api.telemetry)}, api.alert_sinks.sinks()});
}

void test_sinks(AlertApi& api, const RouteCall& call, const NoParams&,
                const protocol::SinkTestRequest& body,
                const Responder<protocol::SinkTests>& respond) {
  const std::string action = body.sink ? "test sink " + *body.sink : "test all sinks";
  api.alert_sinks.test(
      body.sink.value_or(""), call.principal.name(),
      [&api, call, action, respond](const Result<std::vector<protocol::SinkTest>>& tests) {
        if (!tests) return respond(tests.error());
        call.report_action(action);
        respond(protocol::SinkTests{{1, is_simulated(api.telemetry)}, *tests});
      });
}

}  // namespace

std::vector<BoundRoute> alert_routes() {
  return {
      bind(protocol::kAlerts, &get_alerts),    bind(protocol::kAlertHistory, &get_alert_history),
      bind(protocol::kAlert, &get_alert),      bind(protocol::kAcknowledge, &acknowledge_alert),
      bind(protocol::kTestSinks, &test_sinks), bind(protocol::kActiveSilences, &get_silences),
      bind(protocol::kSilence, &put_silence),  bind(protocol::kUnsilence, &end_silence),
      bind(protocol::kRules, &get_rules),      bind(protocol::kSinks, &get_sinks),
  };
}

}  // namespace gpuyard::api
