// The stream that answers a claim: the lease at each change, and the claim's place in the queue
// when that changes. When the stream ends, the holder counts as gone. Lives on the io thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "faces/api/context.h"
#include "faces/api/lease_view.h"
#include "io/http/message.h"
#include "io/http/response_stream.h"

namespace gpuyard::api {

class LeaseStream final : public http::Feed {
 public:
  // `now`: the lease as the claim was answered. The context outlives all its callbacks.
  LeaseStream(Context&, lease::Lease now, const Viewer&);

  http::Chunk next() override;
  // True once the lease has ended and the client was told.
  bool over() const override {
    return !changed_ && alerts_.empty() && now_.state == lease::State::ended;
  }

 private:
  bool waits() const { return now_.state == lease::State::waiting; }
  void on_change(const lease::Lease&);
  void on_alert(const protocol::Alert&);
  // Returns whether the lease has the GPU of the alert.
  bool concerns(const protocol::Alert&) const;
  // Returns whether the place differs from the one told last.
  bool moved() const;

  // Unread by a slow client. Beyond it the oldest of the least severe goes.
  static constexpr std::size_t kMostAlerts = 64;

  Context& context_;
  lease::Lease now_;
  struct Unread {
    std::int64_t severity = 0;
    std::string json;
  };
  std::deque<Unread> alerts_;
  Viewer viewer_;
  bool changed_ = true;
  bool look_ = false;  // a second has passed
  std::optional<protocol::LeasePlace> told_;
  std::optional<TimePoint> told_at_;
  std::optional<protocol::LeasePlace> place_;
  Subscription attendance_;
  Subscription watch_;
  Subscription alert_watch_;
  Subscription seconds_;
};

// Answers a claim when it is granted, or after a while, so that its caller asks again. Lives on the
// io thread.

class ClaimWait : public std::enable_shared_from_this<ClaimWait> {
 public:
  using Done = std::function<void(const lease::Lease&)>;

  // Calls `done` with the lease once it no longer waits, or after `at_most` in its state then;
  // never if the client disconnects before. Until then the claim counts as attended.
  static void begin(Context&, const lease::Lease& now, Duration at_most,
                    const std::shared_ptr<http::Presence>& client, Done done);

 private:
  ClaimWait(const lease::Lease& now, Done done) : now_(now), done_(std::move(done)) {}
  void start(Context&, Duration at_most, const std::shared_ptr<http::Presence>& client);
  void finish();
  void leave();

  lease::Lease now_;
  Done done_;
  Subscription attendance_;
  Subscription watch_;
  Subscription timer_;
};

// Publishes leases to GET /api/gpu/events: each change, as any user may see it, and the load every
// five seconds. Lives on the io thread.

class LeasePublisher {
 public:
  static constexpr Duration kLoadEvery = std::chrono::seconds(5);

  // The context outlives this.
  explicit LeasePublisher(Context& context) : context_(context) {}
  LeasePublisher(const LeasePublisher&) = delete;
  LeasePublisher& operator=(const LeasePublisher&) = delete;

  void start();
  // For lease::Leases::on_change().
  void on_change(const lease::Lease& now);

 private:
  void report();

  Context& context_;
  Subscription timer_;
};

}  // namespace gpuyard::api
