// What a client gets that claims with a stream: its lease at each change, and its place in the
// queue when that is another. Its end is the holder's. Lives on the io thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/context.h"
#include "api/lease_view.h"
#include "http/feed.h"
#include "http/message.h"

namespace gpuyard::api {

class LeaseStream final : public http::Feed {
 public:
  // `now`: what the claim was answered with. The context outlives whatever is asked of it.
  LeaseStream(Context&, lease::Lease now, const Viewer&);

  http::Chunk next() override;
  // When the lease is, and that was told.
  bool over() const override {
    return !changed_ && alerts_.empty() && now_.state == lease::State::ended;
  }

 private:
  bool waits() const { return now_.state == lease::State::waiting; }
  void on_change(const lease::Lease&);
  void on_alert(const protocol::Alert&);
  // Whether it has the GPU of the alert.
  bool concerns(const protocol::Alert&) const;
  // Whether its place is another than the one that was told.
  bool moved() const;

  static constexpr std::size_t kMostAlerts = 64;  // that a slow client has not taken

  Context& context_;
  lease::Lease now_;
  std::deque<std::string> alerts_;  // as JSON
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

// A claim that is answered when it is granted, or late enough that its caller asks again. Lives on
// the io thread.

class LeaseWait : public std::enable_shared_from_this<LeaseWait> {
 public:
  using Done = std::function<void(const lease::Lease&)>;

  // Calls done with the lease once it does not wait any more, or after `at_most` as it is then;
  // never when the client left before. Until then its claim is attended to.
  static void begin(Context&, const lease::Lease& now, Duration at_most,
                    const std::shared_ptr<http::Presence>& client, Done done);

 private:
  LeaseWait(const lease::Lease& now, Done done) : now_(now), done_(std::move(done)) {}
  void start(Context&, Duration at_most, const std::shared_ptr<http::Presence>& client);
  void finish();
  void leave();

  lease::Lease now_;
  Done done_;
  Subscription attendance_;
  Subscription watch_;
  Subscription timer_;
};

// What GET /api/gpu/events tells of leases: each change, as anybody may see it, and every five
// seconds the load. Lives on the io thread.

class LeaseNews {
 public:
  static constexpr Duration kLoadEvery = std::chrono::seconds(5);

  // The context outlives it, and has leases and a loop.
  explicit LeaseNews(Context& context) : context_(context) {}
  LeaseNews(const LeaseNews&) = delete;
  LeaseNews& operator=(const LeaseNews&) = delete;

  void start();
  // For lease::Leases::on_change().
  void on_change(const lease::Lease& now);

 private:
  void report();

  Context& context_;
  Subscription timer_;
};

}  // namespace gpuyard::api
