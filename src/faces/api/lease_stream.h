// The stream that answers a claim: the lease at each change, and the claim's queue position
// when that changes. When the stream ends, the holder counts as gone. Thread: io.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "faces/api/context.h"
#include "faces/api/lease_view.h"
#include "io/http/message.h"
#include "io/http/response_stream.h"

namespace gpuyard::api {

class LeaseStream final : public http::ResponseStream {
 public:
  // `now`: the lease as the claim was answered. `api` outlives all its callbacks.
  LeaseStream(LeaseApi& api, lease::Lease now, const Viewer&);

  http::Chunk next() override;
  // True once the lease has ended and the client was notified.
  bool is_over() const override {
    return !changed_ && alerts_.empty() && lease_.state == lease::LeaseState::ended;
  }

 private:
  bool is_waiting() const { return lease_.state == lease::LeaseState::waiting; }
  void on_change(const lease::Lease&);
  void on_alert(const protocol::Alert&);
  // Returns whether the lease has the GPU of the alert.
  bool matches(const protocol::Alert&) const;
  // Returns whether the queue position differs from the one sent last.
  bool has_position_changed() const;

  // The most alerts that a slow client has not read. Beyond it the oldest of the least severe is
  // dropped.
  static constexpr std::size_t kMaxAlerts = 64;

  LeaseApi& api_;
  lease::Lease lease_;
  struct UnsentAlert {
    std::int64_t severity = 0;
    std::string json;
  };
  std::deque<UnsentAlert> alerts_;
  Viewer viewer_;
  bool changed_ = true;
  bool position_due_ = false;  // a second has passed
  std::optional<protocol::QueuePosition> sent_position_;
  std::optional<TimePoint> sent_at_;
  std::optional<protocol::QueuePosition> position_;
  Subscription presence_;
  Subscription lease_subscription_;
  Subscription alert_subscription_;
  Subscription position_subscription_;
};

}  // namespace gpuyard::api
