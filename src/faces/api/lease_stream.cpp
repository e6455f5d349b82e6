#include "faces/api/lease_stream.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json_writer.h"
#include "faces/api/alert_view.h"
#include "faces/api/lease_cache.h"
#include "faces/api/lease_view.h"
#include "io/http/event_stream.h"

namespace gpuyard::api {
namespace {

double seconds_between(TimePoint earlier, TimePoint later) {
  return std::chrono::duration<double>(later - earlier).count();
}

// Returns whether an estimate differs from an earlier one both in its moment and in the time that
// is left.
bool is_different_estimate(std::optional<double> before, std::optional<double> now,
                           double elapsed_s) {
  constexpr double kTolerance = 1.5;  // seconds
  if (before.has_value() != now.has_value()) return true;
  if (!before) return false;
  return std::abs(*before - *now) > kTolerance && std::abs(*before - elapsed_s - *now) > kTolerance;
}

}  // namespace

LeaseStream::LeaseStream(LeaseApi& api, lease::Lease now, const Viewer& viewer)
    : api_(api), lease_(std::move(now)), viewer_(viewer) {
  if (lease_.state == lease::LeaseState::ended) return;
  presence_ = api.leases.mark_present(lease_.id, lease::PresenceKind::stream);
  lease_subscription_ =
      api.leases.subscribe(lease_.id, [this](const lease::Lease& lease) { on_change(lease); });
  alert_subscription_ =
      api.alert_publisher.subscribe([this](const protocol::Alert& alert) { on_alert(alert); });
  if (!is_waiting()) return;
  position_subscription_ = api.facts.cache->subscribe([this] {
    position_due_ = true;
    notify_more();
  });
}

void LeaseStream::on_change(const lease::Lease& lease) {
  lease_ = lease;
  changed_ = true;
  if (!is_waiting()) position_subscription_.reset();
  notify_more();
}

bool LeaseStream::matches(const protocol::Alert& alert) const {
  return lease_.state == lease::LeaseState::held && alert.device &&
         std::ranges::find(lease_.gpus, alert.device->uuid) != lease_.gpus.end();
}

void LeaseStream::on_alert(const protocol::Alert& alert) {
  if (!matches(alert)) return;
  alerts_.push_back({alert.severity, json::to_json(alert)});
  if (alerts_.size() > kMaxAlerts) {
    alerts_.erase(std::ranges::min_element(alerts_, {}, &UnsentAlert::severity));
  }
  notify_more();
}

http::Chunk LeaseStream::next() {
  if (!changed_ && !alerts_.empty()) {
    const std::string alert = std::move(alerts_.front().json);
    alerts_.pop_front();
    return http::event_chunk(protocol::kAlertEvent, alert);
  }
  const bool is_due = std::exchange(position_due_, false) && is_waiting();
  if (!changed_ && !is_due) return {};
  protocol::Lease view = view_with_position(api_.facts, lease_, viewer_);
  position_ = view.place;
  if (!std::exchange(changed_, false) && !has_position_changed()) return {};
  sent_position_ = position_;
  sent_at_ = api_.loop.now();
  return http::event_chunk(protocol::kLeaseEvent, json::to_json(view));
}

bool LeaseStream::has_position_changed() const {
  if (!position_ || !sent_position_) return position_.has_value() != sent_position_.has_value();
  return position_->position != sent_position_->position || position_->why != sent_position_->why ||
         position_->text != sent_position_->text ||
         is_different_estimate(sent_position_->expected_s, position_->expected_s,
                               seconds_between(*sent_at_, api_.loop.now()));
}

}  // namespace gpuyard::api
