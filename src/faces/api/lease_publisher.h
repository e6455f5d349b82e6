// Publishes leases to GET /api/gpu/events: each change, as any user may see it, and the load every
// five seconds. Thread: io.
#pragma once

#include <chrono>

#include "base/clock.h"
#include "base/loop.h"
#include "core/lease/lease_manager.h"
#include "faces/api/context.h"

namespace gpuyard::api {

class LeasePublisher {
 public:
  static constexpr Duration kLoadInterval = std::chrono::seconds(5);

  // Both outlive this.
  LeasePublisher(LeaseApi& api, EventHub& events) : api_(api), events_(events) {}
  LeasePublisher(const LeasePublisher&) = delete;
  LeasePublisher& operator=(const LeasePublisher&) = delete;

  void start();
  // For lease::LeaseManager::set_on_change().
  void on_change(const lease::Lease& now);

 private:
  void publish_load();

  LeaseApi& api_;
  EventHub& events_;
  Subscription timer_;
};

}  // namespace gpuyard::api
