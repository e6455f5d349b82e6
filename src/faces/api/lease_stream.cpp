#include "api/lease_stream.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "api/alert_news.h"
#include "api/lease_reasons.h"
#include "base/json_writer.h"
#include "http/event_stream.h"

namespace gpuyard::api {
namespace {

double seconds_between(TimePoint earlier, TimePoint later) {
  return std::chrono::duration<double>(later - earlier).count();
}

// Whether an estimate says something else than an earlier one: neither the moment is the same nor
// the time until then.
bool another(std::optional<double> before, std::optional<double> now, double passed) {
  constexpr double kSame = 1.5;  // seconds
  if (before.has_value() != now.has_value()) return true;
  if (!before) return false;
  return std::abs(*before - *now) > kSame && std::abs(*before - passed - *now) > kSame;
}

}  // namespace

LeaseFeed::LeaseFeed(Context& context, lease::Lease now, const Viewer& viewer)
    : context_(context), now_(std::move(now)), viewer_(viewer) {
  if (now_.state == lease::State::ended) return;
  attendance_ = context.leases->attend(now_.id, lease::Attendance::stream);
  watch_ = context.leases->watch(now_.id, [this](const lease::Lease& lease) { on_change(lease); });
  if (context.alert_news != nullptr) {
    alert_watch_ =
        context.alert_news->follow([this](const protocol::Alert& alert) { on_alert(alert); });
  }
  if (!waits()) return;
  seconds_ = board_of(context).follow([this] {
    look_ = true;
    more();
  });
}

void LeaseFeed::on_change(const lease::Lease& lease) {
  now_ = lease;
  changed_ = true;
  if (!waits()) seconds_.reset();
  more();
}

bool LeaseFeed::concerns(const protocol::Alert& alert) const {
  return now_.state == lease::State::held && alert.gpu &&
         std::ranges::find(now_.gpus, alert.gpu->uuid) != now_.gpus.end();
}

void LeaseFeed::on_alert(const protocol::Alert& alert) {
  if (!concerns(alert)) return;
  if (alerts_.size() == kMostAlerts) alerts_.pop_front();
  alerts_.push_back(json::to_json(alert));
  more();
}

http::Chunk LeaseFeed::next() {
  if (!changed_ && !alerts_.empty()) {
    const std::string alert = std::move(alerts_.front());
    alerts_.pop_front();
    return http::event_chunk(protocol::kAlertEvent, alert);
  }
  const bool look = std::exchange(look_, false) && waits();
  if (!changed_ && !look) return {};
  protocol::Lease view = placed_view_of(context_, now_, viewer_);
  place_ = view.place;
  if (!std::exchange(changed_, false) && !moved()) return {};
  told_ = place_;
  told_at_ = context_.loop->now();
  return http::event_chunk(protocol::kLeaseEvent, json::to_json(view));
}

bool LeaseFeed::moved() const {
  if (!place_ || !told_) return place_.has_value() != told_.has_value();
  return place_->position != told_->position || place_->why != told_->why ||
         place_->text != told_->text ||
         another(told_->expected_s, place_->expected_s,
                 seconds_between(*told_at_, context_.loop->now()));
}

}  // namespace gpuyard::api
