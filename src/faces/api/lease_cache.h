// The queue position of each waiting claim and the lease of each GPU, refreshed once a second for
// all callers. Thread: io.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/loop.h"
#include "core/lease/lease_manager.h"
#include "faces/api/lease_view.h"

namespace gpuyard::api {

class LeaseCache : public std::enable_shared_from_this<LeaseCache> {
 public:
  static constexpr Duration kRefreshInterval = std::chrono::seconds(1);
  // The least time between refreshes for claims that are not in the cache yet.
  static constexpr Duration kMinRefreshInterval = std::chrono::milliseconds(100);

  // REQUIRES: the loop and the leases outlive every call; a subscription may outlive the leases.
  LeaseCache(Loop& loop, const lease::LeaseManager& leases) : loop_(loop), leases_(leases) {}

  // Returns the queue position of a waiting claim; nothing: not known yet.
  std::optional<lease::QueuePosition> position(const std::string& id);
  // Returns the id of the lease that has the GPU.
  std::optional<std::string> holder(const DeviceId&);

  // Calls `on_refresh` every kRefreshInterval, for as long as the subscription lives.
  Subscription subscribe(std::function<void()> on_refresh);

 private:
  void refresh(Duration oldest);
  void tick();

  Loop& loop_;
  const lease::LeaseManager& leases_;
  std::optional<TimePoint> refreshed_at_;
  std::map<std::string, lease::QueuePosition> positions_;
  std::map<DeviceId, std::string> holders_;
  std::map<std::uint64_t, std::function<void()>> subscribers_;
  std::uint64_t last_subscriber_ = 0;
  Subscription timer_;
};

protocol::QueuePosition position_view_of(const LeaseFacts&, const lease::Lease&,
                                         const lease::QueuePosition&, const Viewer& = {});

// Returns a lease with its queue position, if that is known.
protocol::Lease view_with_position(const LeaseFacts&, const lease::Lease&, const Viewer& = {});

}  // namespace gpuyard::api
