#include "faces/client/event_follower.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "faces/client/daemon_client.h"
#include "faces/client/local.h"
#include "faces/protocol/routes.h"

namespace gpuyard::client {
namespace {

using News = FollowerEvent::Kind;

constexpr Duration kRetryAfter = std::chrono::seconds(1);
// How long a stream may be silent before the daemon counts as away. It writes every 15 s.
constexpr Duration kLongestQuiet = std::chrono::seconds(40);

}  // namespace

EventFollower::EventFollower(http::Endpoint daemon, protocol::EventsRequest request)
    : daemon_(std::move(daemon)), request_(std::move(request)) {
  if (request_.since && *request_.since != protocol::kOldest) last_ = *request_.since;
}

Result<std::optional<FollowerEvent>> EventFollower::next(Duration wait) {
  if (over_) return *over_;
  const TimePoint end = BootClock::now() + wait;
  for (;;) {
    if (!reader_) {
      std::this_thread::sleep_for(std::min(end, retry_at_) - BootClock::now());
      if (BootClock::now() < retry_at_) return std::nullopt;
      if (auto opened = open(); !opened) {
        auto news = broke_off(std::move(opened).error());
        if (!news || *news) return news;
        continue;
      }
      if (std::exchange(away_, false)) return FollowerEvent{.kind = News::back};
    }
    auto news = read(end);
    if (!news || *news || (reader_ && BootClock::now() >= end)) return news;
  }
}

Result<void> EventFollower::open() {
  http::ClientRequest asked;
  asked.target = target_of(protocol::kEvents.pattern, named_values(request_));
  auto reader = http::EventReader::open(daemon_, std::move(asked), kAnswerDeadline);
  if (!reader) return unanswered(std::move(reader).error(), daemon_);
  if (reader->response().status != 200) return error_of(reader->response());
  listened_ = true;
  reader_.emplace(*std::move(reader));
  return {};
}

// Reads until there is news or the time is over.
Result<std::optional<FollowerEvent>> EventFollower::read(TimePoint end) {
  while (reader_) {
    const Duration left = std::max(end - BootClock::now(), Duration::zero());
    auto event = reader_->next(std::min(left, kLongestQuiet));
    if (!event) return broke_off(std::move(event).error());
    if (*event) {
      if (auto news = take(**std::move(event))) return news;
    } else if (reader_->silence() > kLongestQuiet) {
      return broke_off({Errc::timed_out, "no data from the daemon at " + daemon_.text()});
    } else if (BootClock::now() >= end) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

// A first failure is no interruption, and neither is a refusal.
Result<std::optional<FollowerEvent>> EventFollower::broke_off(Error why) {
  const bool ended = why.code == Errc::not_found && reader_.has_value();
  reader_.reset();
  const bool told_all = ended && !request_.follow.value_or(true);
  if (told_all || !listened_ || !(ended || passes(why))) {
    if (told_all) {
      over_.emplace(FollowerEvent{.kind = News::ended});
    } else {
      over_.emplace(std::move(why));
    }
    return *over_;
  }
  retry_at_ = BootClock::now() + kRetryAfter;
  if (std::exchange(away_, true)) return std::nullopt;
  if (ended) why = {Errc::unavailable, "the daemon at " + daemon_.text() + " has stopped"};
  return FollowerEvent{.kind = News::away, .error = std::move(why)};
}

std::optional<FollowerEvent> EventFollower::take(http::ServerEvent event) {
  const bool anew = event.name == protocol::kResyncEvent;
  if (anew && !last_.empty()) {
    last_.clear();
    request_.since = protocol::kOldest;
    reader_.reset();
    return FollowerEvent{.kind = News::lost};
  }
  if (!event.id.empty()) {
    last_ = event.id;
    request_.since = event.id;
  }
  if (anew) return std::nullopt;  // where a new listener begins
  return FollowerEvent{.kind = News::event, .event = std::move(event)};
}

}  // namespace gpuyard::client
