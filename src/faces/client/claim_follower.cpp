#include "faces/client/claim_follower.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <utility>

#include "base/json_writer.h"
#include "base/try.h"
#include "faces/client/daemon_client.h"
#include "faces/client/local_daemon.h"
#include "faces/protocol/routes.h"

namespace gpuyard::client {
namespace {

using Kind = ClaimEvent::Kind;

constexpr Duration kMinRetryDelay = std::chrono::milliseconds(100);
constexpr Duration kMaxRetryDelay = std::chrono::seconds(2);
// The longest wait of the destructor for the thread.
constexpr Duration kStopCheckInterval = std::chrono::milliseconds(250);
// The daemon counts as away after a stream was silent for this time. It writes every 15 s.
constexpr Duration kMaxClaimSilence = std::chrono::seconds(40);
// The longest wait for the first answer of a daemon that was just started, or waits for its disk.
constexpr Duration kFirstReplyTimeout = std::chrono::seconds(30);
// The interval at which a waiting client without a stream gets its queue position, in seconds.
constexpr double kPollSeconds = 2;

}  // namespace

http::ClientRequest ClaimFollower::http_request() const {
  http::ClientRequest request;
  request.method = http::Method::post;
  request.target = std::string(protocol::kClaim.pattern);
  request.body = json::to_json(lease_request_);
  return request;
}

// Returns whether to call the daemon again after this error.
bool ClaimFollower::should_retry(const Error& why) const {
  if (!is_transient(why)) return false;
  if (lease_received_) return true;
  // A late answer means that a daemon is there.
  const bool slow = daemon_responded_ || why.code == Errc::timed_out;
  return slow && BootClock::now() - began_at_ < kFirstReplyTimeout;
}

Error ClaimFollower::disconnect_error(const Error& why) const {
  Error error = why;
  error.code = Errc::unavailable;
  if (why.code == Errc::not_found)
    error.message = "the daemon at " + daemon_.text() + " has stopped";
  return error;
}

ClaimFollower::ClaimFollower(http::Endpoint daemon, protocol::LeaseRequest request)
    : daemon_(std::move(daemon)),
      lease_request_(std::move(request)),
      wakeup_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      began_at_(BootClock::now()),
      thread_([this](const std::stop_token& stop) { follow(stop); }) {}

ClaimFollower::~ClaimFollower() {
  thread_.request_stop();
}

std::vector<ClaimEvent> ClaimFollower::pop_events() {
  const MutexLock lock(mutex_);
  eventfd_t count = 0;
  static_cast<void>(::eventfd_read(wakeup_.get(), &count));  // fails if nothing was signalled
  return std::exchange(events_, {});
}

void ClaimFollower::follow(const std::stop_token& stop) {
  bool streamed = lease_request_.stream.value_or(false);
  Duration retry = kMinRetryDelay;
  while (!stop.stop_requested()) {
    const bool was_away = disconnected_;
    const auto ended = streamed ? stream(stop) : poll(stop);
    if (ended) return;
    // The daemon may have no stream left and still take the claim.
    if (streamed && !granted_ && ended.error().code == Errc::busy) {
      streamed = false;
      lease_request_.stream = false;
      continue;
    }
    if (!should_retry(ended.error())) {
      push_event({.kind = Kind::refused, .error = ended.error()});
      return;
    }
    if (was_away && !disconnected_) retry = kMinRetryDelay;  // the daemon was back in between
    if (!std::exchange(disconnected_, true))
      push_event({.kind = Kind::away, .error = ended.error()});
    pause(stop, retry);
    retry = std::min(2 * retry, kMaxRetryDelay);
  }
}

Result<void> ClaimFollower::stream(const std::stop_token& stop) {
  auto reader = http::EventReader::open(daemon_, http_request(), kReplyTimeout);
  if (!reader) return add_start_hint(std::move(reader).error(), daemon_);
  daemon_responded_ = true;
  if (reader->response().status != 200) return error_of(reader->response());
  while (!stop.stop_requested()) {
    const auto event = reader->next(kStopCheckInterval);
    if (!event) return disconnect_error(event.error());
    if (!*event && reader->idle_time() > kMaxClaimSilence) {
      return Error{Errc::timed_out, "no data from the daemon at " + daemon_.text()};
    }
    if (*event && (*event)->name == protocol::kAlertEvent) on_alert((*event)->data);
    if (!*event || (*event)->name != protocol::kLeaseEvent) continue;
    auto lease = GPUYARD_TRY(parse_reply<protocol::Lease>(daemon_.text(), (*event)->data));
    if (on_lease(std::move(lease))) return {};
  }
  return {};
}

// Drops an alert that cannot be read: it is a newer daemon's and says nothing of the lease.
void ClaimFollower::on_alert(std::string_view data) {
  auto alert = parse_reply<protocol::Alert>(daemon_.text(), data);
  if (alert) push_event({.kind = Kind::alert, .alert = *std::move(alert)});
}

Result<void> ClaimFollower::poll(const std::stop_token& stop) {
  // A claim with a shorter wait gets its queue position once, too.
  const double wait_s = lease_request_.wait_s.value_or(0);
  lease_request_.answer_within_s = wait_s > 0 ? std::min(kPollSeconds, wait_s / 2) : kPollSeconds;
  while (!stop.stop_requested()) {
    auto answer = GPUYARD_TRY(submit_claim());
    const bool waits = answer.lease.state == lease::LeaseState::waiting;
    if (on_lease(std::move(answer.lease)) || !waits) return {};
  }
  return {};
}

Result<protocol::LeaseAnswer> ClaimFollower::submit_claim() {
  const Duration deadline =
      kReplyTimeout + std::chrono::seconds(static_cast<std::int64_t>(kPollSeconds));
  const auto response = http::fetch(daemon_, http_request(), deadline);
  if (!response) return add_start_hint(response.error(), daemon_);
  daemon_responded_ = true;
  if (response->status != 200) return error_of(*response);
  return parse_reply<protocol::LeaseAnswer>(daemon_.text(), response->body);
}

bool ClaimFollower::on_lease(protocol::Lease lease) {
  lease_received_ = true;
  if (std::exchange(disconnected_, false)) push_event({.kind = Kind::back});
  if (claimed_at_ && lease.requested_wall != *claimed_at_) {
    // A command that has the GPUs of the first lease does not hold a second one.
    if (granted_) {
      release_orphan_claim();
      return true;
    }
    push_event({.kind = Kind::resubmitted});
  }
  claimed_at_ = lease.requested_wall;
  granted_ = granted_ || lease.state == lease::LeaseState::held;
  const bool over = lease.state == lease::LeaseState::ended;
  push_event({.kind = Kind::changed, .lease = std::move(lease)});
  return over;
}

// If the release fails, the daemon sees by itself that the claim has no client.
void ClaimFollower::release_orphan_claim() {
  protocol::ReleaseQuery query;
  query.lease = lease_request_.id.value_or("");
  static_cast<void>(call(daemon_, protocol::kRelease, query).ok());
  push_event({.kind = Kind::refused,
              .error = {Errc::not_found, "the daemon at " + daemon_.text() +
                                             " has lost its lease records, including this one"}});
}

void ClaimFollower::push_event(ClaimEvent event) {
  const MutexLock lock(mutex_);
  // The program may have been stopped for hours without pop_events(). Only the newest state of
  // a lease counts, and an interruption that is over is not reported.
  if (event.kind == Kind::back && !events_.empty() && events_.back().kind == Kind::away) {
    events_.pop_back();
    return;
  }
  if (event.kind == Kind::alert && events_.size() >= kMaxQueuedEvents) return;
  if (event.kind == Kind::changed && !events_.empty() && events_.back().kind == Kind::changed) {
    events_.back() = std::move(event);
  } else {
    events_.push_back(std::move(event));
  }
  static_cast<void>(::eventfd_write(wakeup_.get(), 1));
}

void ClaimFollower::pause(const std::stop_token& stop, Duration duration) {
  const MutexLock lock(mutex_);
  // A condition variable cannot wait by BootClock.
  const auto until = std::chrono::steady_clock::now() + duration;
  static_cast<void>(pause_condition_.wait_until(mutex_, stop, until, [] { return false; }));
}

}  // namespace gpuyard::client
