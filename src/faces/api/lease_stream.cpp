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
bool another(std::optional<double> before, std::optional<double> now, double passed) {
  constexpr double kSame = 1.5;  // seconds
  if (before.has_value() != now.has_value()) return true;
  if (!before) return false;
  return std::abs(*before - *now) > kSame && std::abs(*before - passed - *now) > kSame;
}

}  // namespace

LeaseStream::LeaseStream(Context& context, lease::Lease now, const Viewer& viewer)
    : context_(context), now_(std::move(now)), viewer_(viewer) {
  if (now_.state == lease::State::ended) return;
  attendance_ = context.leases.attend(now_.id, lease::Attendance::stream);
  watch_ = context.leases.watch(now_.id, [this](const lease::Lease& lease) { on_change(lease); });
  alert_watch_ =
      context.alert_news.follow([this](const protocol::Alert& alert) { on_alert(alert); });
  if (!waits()) return;
  seconds_ = board_of(context).follow([this] {
    look_ = true;
    more();
  });
}

void LeaseStream::on_change(const lease::Lease& lease) {
  now_ = lease;
  changed_ = true;
  if (!waits()) seconds_.reset();
  more();
}

bool LeaseStream::concerns(const protocol::Alert& alert) const {
  return now_.state == lease::State::held && alert.gpu &&
         std::ranges::find(now_.gpus, alert.gpu->uuid) != now_.gpus.end();
}

void LeaseStream::on_alert(const protocol::Alert& alert) {
  if (!concerns(alert)) return;
  alerts_.push_back({alert.severity, json::to_json(alert)});
  if (alerts_.size() > kMostAlerts) {
    alerts_.erase(std::ranges::min_element(alerts_, {}, &Unread::severity));
  }
  more();
}

http::Chunk LeaseStream::next() {
  if (!changed_ && !alerts_.empty()) {
    const std::string alert = std::move(alerts_.front().json);
    alerts_.pop_front();
    return http::event_chunk(protocol::kAlertEvent, alert);
  }
  const bool look = std::exchange(look_, false) && waits();
  if (!changed_ && !look) return {};
  protocol::Lease view = placed_view_of(context_, now_, viewer_);
  place_ = view.place;
  if (!std::exchange(changed_, false) && !moved()) return {};
  told_ = place_;
  told_at_ = context_.loop.now();
  return http::event_chunk(protocol::kLeaseEvent, json::to_json(view));
}

bool LeaseStream::moved() const {
  if (!place_ || !told_) return place_.has_value() != told_.has_value();
  return place_->position != told_->position || place_->why != told_->why ||
         place_->text != told_->text ||
         another(told_->expected_s, place_->expected_s,
                 seconds_between(*told_at_, context_.loop.now()));
}

void ClaimWait::begin(Context& context, const lease::Lease& now, Duration at_most,
                      const std::shared_ptr<http::Presence>& client, Done done) {
  if (now.state != lease::State::waiting) return done(now);
  const std::shared_ptr<ClaimWait> wait(new ClaimWait(now, std::move(done)));
  wait->start(context, at_most, client);
}

// The callbacks registered here keep this alive until leave() drops them.
void ClaimWait::start(Context& context, Duration at_most,
                      const std::shared_ptr<http::Presence>& client) {
  const auto self = shared_from_this();
  attendance_ = context.leases.attend(now_.id, lease::Attendance::poll);
  watch_ = context.leases.watch(now_.id, [self](const lease::Lease& lease) {
    self->now_ = lease;
    if (lease.state != lease::State::waiting) self->finish();
  });
  timer_ = context.loop.call_after(at_most, [self] { self->finish(); });
  if (client) client->on_gone([self] { self->leave(); });
}

void ClaimWait::finish() {
  const auto self = shared_from_this();
  const Done done = std::exchange(done_, nullptr);
  if (done) done(now_);
  leave();
}

void ClaimWait::leave() {
  const auto self = shared_from_this();
  done_ = nullptr;
  attendance_.reset();
  watch_.reset();
  timer_.reset();
}

void LeasePublisher::start() {
  timer_ = context_.loop.call_after(kLoadEvery, [this] { report(); });
}

void LeasePublisher::on_change(const lease::Lease& now) {
  ++context_.lease_changes;
  // Published for no GPU in particular, so that listeners to any GPU hear of each grant and
  // release.
  context_.events.publish(protocol::kLeaseEvent, json::to_json(view_of(context_, now)));
}

void LeasePublisher::report() {
  start();
  if (context_.events.listeners() == 0) return;
  if (!context_.leases.were_read()) return;  // it would call every GPU free
  context_.events.report(protocol::kLoadEvent, json::to_json(load_of(context_.leases)));
}

}  // namespace gpuyard::api
