#include "api/alert_news.h"

#include "api/alert_view.h"
#include "base/json_writer.h"

namespace gpuyard::api {

void AlertNews::on_change(const andon::Alert& alert) {
  const protocol::Alert view = alert_view(*context_.alerts, alert);
  context_.events.publish(protocol::kAlertEvent, json::to_json(view), alert.gpu);
  const auto followers = followers_;  // who is told may stop listening
  for (const auto& [number, told] : followers) told(view);
}

Subscription AlertNews::follow(Told told) {
  const std::uint64_t number = next_++;
  followers_.emplace(number, std::move(told));
  return Subscription([weak = std::weak_ptr(self_), number] {
    if (const auto self = weak.lock()) (*self)->followers_.erase(number);
  });
}

}  // namespace gpuyard::api
