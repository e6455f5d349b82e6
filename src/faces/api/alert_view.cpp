#include "faces/api/alert_view.h"

#include "base/json_writer.h"
#include "core/andon/alert.h"
#include "core/andon/alert_severity.h"
#include "core/andon/silences.h"
#include "faces/api/event_hub.h"

namespace gpuyard::api {
protocol::Alert alert_view(const andon::AlertService& alerts, const andon::Alert& alert) {
  const bool firing = alert.state == andon::AlertState::firing;
  const andon::Rule* const rule = find_rule(alerts.engine().rules(), alert.rule);
  protocol::Alert view;
  static_cast<andon::Alert&>(view) = alert;
  view.level = andon::level_of(alert.severity);
  if (!alert.gpu.empty()) {
    const bool displaced = alerts.engine().is_index_reused(alert);
    view.device = {displaced ? std::nullopt : alert.index, alert.gpu, alert.pci_address,
                   alert.gpu_name};
  }
  view.silenced = firing && alerts.silences().is_silenced(alert);
  view.quarantines = firing && rule != nullptr && rule->quarantine && !alert.acknowledged;
  const std::string inhibitor = firing ? alerts.engine().inhibitor(alert.rule, alert.gpu) : "";
  if (!inhibitor.empty()) view.inhibited_by = inhibitor;
  view.told = alert.notified_severity.has_value();
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
