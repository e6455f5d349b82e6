// What a client gets that claims with a stream: its lease at each change, and its place in the
// queue when that is another. Its end is the holder's. Lives on the io thread.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "api/lease_view.h"
#include "http/feed.h"

namespace gpuyard::api {

class LeaseFeed final : public http::Feed {
 public:
  // `now`: what the claim was answered with. The context outlives whatever is asked of it.
  LeaseFeed(Context&, lease::Lease now, const Viewer&);

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

}  // namespace gpuyard::api
