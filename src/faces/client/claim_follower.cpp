#include "faces/client/claim_follower.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <utility>

#include "base/json_writer.h"
#include "faces/client/daemon_client.h"
#include "faces/client/local.h"
#include "faces/protocol/routes.h"

namespace gpuyard::client {
namespace {

using Kind = ClaimEvent::Kind;

constexpr Duration kFirstRetry = std::chrono::milliseconds(100);
constexpr Duration kLongestRetry = std::chrono::seconds(2);
// How long the destructor may have to wait for the thread.
constexpr Duration kListening = std::chrono::milliseconds(250);
// How long a stream may be silent before the daemon counts as away. It writes every 15 s.
constexpr Duration kLongestSilence = std::chrono::seconds(40);
// How long a daemon that was just started, or waits for its disk, may take to answer first.
constexpr Duration kFirstAnswer = std::chrono::seconds(30);
// Without a stream: how often a waiting client hears of its place, in seconds.
constexpr double kAnswerWithin = 2;

}  // namespace

http::ClientRequest ClaimFollower::request() const {
  http::ClientRequest request;
  request.method = http::Method::post;
  request.target = std::string(protocol::kClaim.pattern);
  request.body = json::to_json(wish_);
  return request;
}

// Whether the daemon is to be asked again after this error.
bool ClaimFollower::is_patient(const Error& why) const {
  if (!passes(why)) return false;
  if (heard_) return true;
  // A late answer means that a daemon is there.
  const bool slow = there_ || why.code == Errc::timed_out;
  return slow && BootClock::now() - began_ < kFirstAnswer;
}

Error ClaimFollower::broken_off(const Error& why) const {
  Error error = why;
  error.code = Errc::unavailable;
  if (why.code == Errc::not_found)
    error.message = "the daemon at " + daemon_.text() + " has stopped";
  return error;
}

ClaimFollower::ClaimFollower(http::Endpoint daemon, protocol::LeaseWish wish)
    : daemon_(std::move(daemon)),
      wish_(std::move(wish)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      began_(BootClock::now()),
      thread_([this](const std::stop_token& stop) { follow(stop); }) {}

ClaimFollower::~ClaimFollower() {
  thread_.request_stop();
}

std::vector<ClaimEvent> ClaimFollower::take() {
  const std::scoped_lock lock(mutex_);
  eventfd_t rung = 0;
  static_cast<void>(::eventfd_read(bell_.get(), &rung));  // fails if the bell was not rung
  return std::exchange(news_, {});
}

void ClaimFollower::follow(const std::stop_token& stop) {
  bool streamed = wish_.stream.value_or(false);
  Duration retry = kFirstRetry;
  while (!stop.stop_requested()) {
    const bool was_away = away_;
    const auto ended = streamed ? stream(stop) : poll(stop);
    if (ended) return;
    // The daemon may have no stream left and still take the claim.
    if (streamed && !granted_ && ended.error().code == Errc::busy) {
      streamed = false;
      wish_.stream = false;
      continue;
    }
    if (!is_patient(ended.error())) {
      tell({.kind = Kind::refused, .error = ended.error()});
      return;
    }
    if (was_away && !away_) retry = kFirstRetry;  // the daemon was back in between
    if (!std::exchange(away_, true)) tell({.kind = Kind::away, .error = ended.error()});
    pause(stop, retry);
    retry = std::min(2 * retry, kLongestRetry);
  }
}

Result<void> ClaimFollower::stream(const std::stop_token& stop) {
  auto reader = http::EventReader::open(daemon_, request(), kAnswerDeadline);
  if (!reader) return unanswered(std::move(reader).error(), daemon_);
  there_ = true;
  if (reader->response().status != 200) return error_of(reader->response());
  while (!stop.stop_requested()) {
    const auto event = reader->next(kListening);
    if (!event) return broken_off(event.error());
    if (!*event && reader->silence() > kLongestSilence) {
      return Error{Errc::timed_out, "no data from the daemon at " + daemon_.text()};
    }
    if (*event && (*event)->name == protocol::kAlertEvent) take_alert((*event)->data);
    if (!*event || (*event)->name != protocol::kLeaseEvent) continue;
    auto lease = answer_from<protocol::Lease>(daemon_.text(), (*event)->data);
    if (!lease) return std::move(lease).error();
    if (changed(*std::move(lease))) return {};
  }
  return {};
}

// Drops an alert that cannot be read: it is a newer daemon's and says nothing of the lease.
void ClaimFollower::take_alert(std::string_view data) {
  auto alert = answer_from<protocol::Alert>(daemon_.text(), data);
  if (alert) tell({.kind = Kind::alert, .alert = *std::move(alert)});
}

Result<void> ClaimFollower::poll(const std::stop_token& stop) {
  // A claim that waits for less hears of its place once, too.
  const double patience = wish_.wait_s.value_or(0);
  wish_.answer_within_s = patience > 0 ? std::min(kAnswerWithin, patience / 2) : kAnswerWithin;
  while (!stop.stop_requested()) {
    auto answer = ask();
    if (!answer) return std::move(answer).error();
    const bool waits = answer->lease.state == lease::State::waiting;
    if (changed(std::move(answer->lease)) || !waits) return {};
  }
  return {};
}

Result<protocol::LeaseAnswer> ClaimFollower::ask() {
  const Duration deadline =
      kAnswerDeadline + std::chrono::seconds(static_cast<std::int64_t>(kAnswerWithin));
  const auto response = http::fetch(daemon_, request(), deadline);
  if (!response) return unanswered(response.error(), daemon_);
  there_ = true;
  if (response->status != 200) return error_of(*response);
  return answer_from<protocol::LeaseAnswer>(daemon_.text(), response->body);
}

bool ClaimFollower::changed(protocol::Lease lease) {
  heard_ = true;
  if (std::exchange(away_, false)) tell({.kind = Kind::back});
  if (!asked_.empty() && lease.asked != asked_) {
    // A command that has the GPUs of the first lease does not hold a second one.
    if (granted_) {
      give_up_another();
      return true;
    }
    tell({.kind = Kind::anew});
  }
  asked_ = lease.asked;
  granted_ = granted_ || lease.state == lease::State::held;
  const bool over = lease.state == lease::State::ended;
  tell({.kind = Kind::changed, .lease = std::move(lease)});
  return over;
}

// If the release fails, the daemon sees by itself that the claim has no client.
void ClaimFollower::give_up_another() {
  protocol::ReleaseQuery query;
  query.lease = wish_.id.value_or("");
  static_cast<void>(call(daemon_, protocol::kRelease, query).ok());
  tell({.kind = Kind::refused,
        .error = {Errc::not_found, "the daemon at " + daemon_.text() +
                                       " has lost its lease records, including this one"}});
}

void ClaimFollower::tell(ClaimEvent news) {
  const std::scoped_lock lock(mutex_);
  // The program may have been stopped for hours without take(). Only the newest state of a lease
  // counts, and an interruption that is over is not told.
  if (news.kind == Kind::back && !news_.empty() && news_.back().kind == Kind::away) {
    news_.pop_back();
    return;
  }
  if (news.kind == Kind::alert && news_.size() >= kMostNews) return;
  if (news.kind == Kind::changed && !news_.empty() && news_.back().kind == Kind::changed) {
    news_.back() = std::move(news);
  } else {
    news_.push_back(std::move(news));
  }
  static_cast<void>(::eventfd_write(bell_.get(), 1));
}

void ClaimFollower::pause(const std::stop_token& stop, Duration duration) {
  std::unique_lock lock(mutex_);
  // A condition variable cannot wait by BootClock.
  const auto until = std::chrono::steady_clock::now() + duration;
  static_cast<void>(paused_.wait_until(lock, stop, until, [] { return false; }));
}

}  // namespace gpuyard::client
