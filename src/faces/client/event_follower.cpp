#include "faces/client/event_follower.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "faces/client/daemon_client.h"
#include "faces/client/local_daemon.h"
#include "faces/protocol/routes.h"

namespace gpuyard::client {
namespace {

using FollowerKind = FollowerEvent::Kind;

constexpr Duration kRetryDelay = std::chrono::seconds(1);
// The daemon counts as away after a stream was silent for this time. It writes every 15 s.
constexpr Duration kMaxEventSilence = std::chrono::seconds(40);

}  // namespace

EventFollower::EventFollower(http::Endpoint daemon, protocol::EventsRequest request)
    : daemon_(std::move(daemon)), request_(std::move(request)) {
  if (request_.since && *request_.since != protocol::kOldest) last_event_id_ = *request_.since;
}

Result<std::optional<FollowerEvent>> EventFollower::next(Duration wait) {
  if (final_result_) return *final_result_;
  const TimePoint end = BootClock::now() + wait;
  for (;;) {
    if (!reader_) {
      std::this_thread::sleep_for(std::min(end, retry_at_) - BootClock::now());
      if (BootClock::now() < retry_at_) return std::nullopt;
      if (auto opened = open(); !opened) {
        auto event = on_disconnect(std::move(opened).error());
        if (!event || *event) return event;
        continue;
      }
      if (std::exchange(disconnected_, false)) return FollowerEvent{.kind = FollowerKind::back};
    }
    auto event = read(end);
    if (!event || *event || (reader_ && BootClock::now() >= end)) return event;
  }
}

Result<void> EventFollower::open() {
  http::ClientRequest request;
  request.target = target_of(protocol::kEvents.pattern, named_values(request_));
  auto reader = http::EventReader::open(daemon_, std::move(request), kReplyTimeout);
  if (!reader) return add_start_hint(std::move(reader).error(), daemon_);
  if (reader->response().status != 200) return error_of(reader->response());
  was_connected_ = true;
  reader_.emplace(*std::move(reader));
  return {};
}

// Reads until there is an event or the time is over.
Result<std::optional<FollowerEvent>> EventFollower::read(TimePoint end) {
  while (reader_) {
    const Duration left = std::max(end - BootClock::now(), Duration::zero());
    auto event = reader_->next(std::min(left, kMaxEventSilence));
    if (!event) return on_disconnect(std::move(event).error());
    if (*event) {
      if (auto accepted = accept_event(**std::move(event))) return accepted;
    } else if (reader_->idle_time() > kMaxEventSilence) {
      return on_disconnect({Errc::timed_out, "no data from the daemon at " + daemon_.text()});
    } else if (BootClock::now() >= end) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

// A first failure is no interruption, and neither is a refusal.
Result<std::optional<FollowerEvent>> EventFollower::on_disconnect(Error why) {
  const bool ended = why.code == Errc::not_found && reader_.has_value();
  reader_.reset();
  const bool is_complete = ended && !request_.follow.value_or(true);
  if (is_complete || !was_connected_ || !(ended || is_transient(why))) {
    if (is_complete) {
      final_result_.emplace(FollowerEvent{.kind = FollowerKind::ended});
    } else {
      final_result_.emplace(std::move(why));
    }
    return *final_result_;
  }
  retry_at_ = BootClock::now() + kRetryDelay;
  if (std::exchange(disconnected_, true)) return std::nullopt;
  if (ended) why = {Errc::unavailable, "the daemon at " + daemon_.text() + " has stopped"};
  return FollowerEvent{.kind = FollowerKind::away, .error = std::move(why)};
}

std::optional<FollowerEvent> EventFollower::accept_event(http::ServerEvent event) {
  const bool is_resync = event.name == protocol::kResyncEvent;
  if (is_resync && !last_event_id_.empty()) {
    last_event_id_.clear();
    request_.since = protocol::kOldest;
    reader_.reset();
    return FollowerEvent{.kind = FollowerKind::lost};
  }
  if (!event.id.empty()) {
    last_event_id_ = event.id;
    request_.since = event.id;
  }
  if (is_resync) return std::nullopt;  // the beginning of a new listener
  return FollowerEvent{.kind = FollowerKind::event, .event = std::move(event)};
}

}  // namespace gpuyard::client
