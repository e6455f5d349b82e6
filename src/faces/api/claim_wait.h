// Answers a claim when it is granted, or after a while, so that its caller retries. Thread: io.
#pragma once

#include <functional>
#include <memory>

#include "base/loop.h"
#include "core/lease/lease_manager.h"
#include "faces/api/context.h"
#include "io/http/message.h"

namespace gpuyard::api {

class ClaimWait : public std::enable_shared_from_this<ClaimWait> {
 public:
  using OnDone = std::function<void(const lease::Lease&)>;

  // Calls `on_done` with the lease once it no longer waits, or after `at_most` in its state then;
  // never if the client disconnects before. Until then the claim's client counts as present.
  static void begin(LeaseApi&, const lease::Lease& now, Duration at_most,
                    const std::shared_ptr<http::DisconnectNotifier>& client, OnDone on_done);

 private:
  ClaimWait(const lease::Lease& now, OnDone on_done) : lease_(now), on_done_(std::move(on_done)) {}
  void start(LeaseApi&, Duration at_most, const std::shared_ptr<http::DisconnectNotifier>& client);
  void finish();
  void cancel();

  lease::Lease lease_;
  OnDone on_done_;
  Subscription presence_;
  Subscription lease_subscription_;
  Subscription timer_;
};

}  // namespace gpuyard::api
