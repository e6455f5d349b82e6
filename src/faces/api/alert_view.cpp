#include "faces/api/alert_view.h"

#include "base/json_writer.h"
#include "core/andon/alert.h"
#include "core/andon/alert_severity.h"
#include "core/andon/silences.h"
#include "faces/api/event_hub.h"

namespace gpuyard::api {
namespace {

std::optional<std::string> unless_empty(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace

protocol::Alert alert_view(const andon::AlertService& alerts, const andon::Alert& alert) {
  const bool firing = alert.state == andon::AlertState::firing;
  const andon::Rule* const rule = find_rule(alerts.engine().rules(), alert.rule);
  protocol::Alert view;
  view.number = alert.number;
  view.rule = alert.rule;
  view.state = alert.state;
  view.severity = alert.severity;
  view.level = andon::level_of(alert.severity);
  if (!alert.gpu.empty()) {
    const bool displaced = alerts.engine().is_index_reused(alert);
    view.gpu = {displaced ? std::nullopt : alert.index, alert.gpu, alert.pci_address,
                alert.gpu_name};
  }
  view.value = alert.value;
  view.xid = alert.xid;
  view.message = alert.message;
  view.advice = alert.advice;
  view.fired = to_rfc3339(alert.fired);
  if (alert.resolved) view.resolved = to_rfc3339(*alert.resolved);
  view.ending = alert.end_reason;
  if (const auto& by = alert.acknowledged) {
    view.acknowledged = {by->by, by->note, to_rfc3339(by->at)};
  }
  view.silenced = firing && alerts.silences().is_silenced(alert);
  view.quarantines = firing && rule != nullptr && rule->quarantine && !alert.acknowledged;
  if (firing) view.inhibited_by = unless_empty(alerts.engine().inhibitor(alert.rule, alert.gpu));
  view.told = alert.notified_severity.has_value();
  view.simulated = alert.simulated;
  return view;
}

protocol::Silence silence_view(const andon::Silence& silence) {
  return {silence.id,      unless_empty(silence.rule), unless_empty(silence.gpu), silence.by,
          silence.comment, to_rfc3339(silence.since),  to_rfc3339(silence.until)};
}

protocol::Rule rule_view(const andon::Rule& rule) {
  protocol::Rule view;
  view.name = rule.name;
  view.enabled = rule.enabled;
  view.on = rule.on;
  view.at = rule.at;
  view.below = rule.below;
  view.clear_at = rule.clear_at;
  view.hold_s = to_seconds(rule.hold);
  view.clear_hold_s = to_seconds(rule.clear_hold);
  if (rule.over) view.over_s = to_seconds(*rule.over);
  if (rule.curve == andon::Curve::none) view.severity = rule.severity;
  view.curve = rule.curve;
  if (const auto* events = std::get_if<andon::EventCondition>(&rule.source))
    view.xids = events->xids;
  view.gpus = rule.gpus;
  view.inhibits = rule.inhibits;
  view.notify = rule.notify;
  view.sinks = rule.sinks;
  view.quarantine = rule.quarantine;
  view.cap_w = rule.cap_w;
  if (!rule.command.empty()) view.command = rule.command.front();
  view.message = rule.message;
  view.advice = rule.advice;
  return view;
}

void AlertPublisher::on_change(const andon::Alert& alert) {
  const protocol::Alert view = alert_view(alerts_, alert);
  events_.publish(protocol::kAlertEvent, json::to_json(view), alert.gpu);
  const auto followers = subscribers_;  // a callback may unsubscribe
  for (const auto& [number, on_alert] : followers) on_alert(view);
}

Subscription AlertPublisher::subscribe(OnAlert on_alert) {
  const std::uint64_t number = next_subscriber_++;
  subscribers_.emplace(number, std::move(on_alert));
  return Subscription(lifetime_.guard([this, number] { subscribers_.erase(number); }));
}

}  // namespace gpuyard::api
