// Where everybody stands who waits, and who has which GPU: looked up once a second for all who want
// to see it. Lives on the io thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "api/lease_view.h"
#include "base/loop.h"
#include "lease/leases.h"

namespace gpuyard::api {

class LeaseBoard : public std::enable_shared_from_this<LeaseBoard> {
 public:
  static constexpr Duration kPeriod = std::chrono::seconds(1);
  // For somebody who is not on it yet it is looked up earlier, but no more often than that.
  static constexpr Duration kLeast = std::chrono::milliseconds(100);

  // The leases outlive whoever asks, but not each listener.
  LeaseBoard(Loop& loop, const lease::Leases& leases) : loop_(loop), leases_(leases) {}

  // Of somebody who waits; nothing: not known yet.
  std::optional<lease::Outlook> place(const std::string& id);
  // Of the lease that has the GPU.
  std::optional<std::string> holder(const DeviceId&);

  // Told when it is time to look again, as long as this lives.
  Subscription follow(std::function<void()> told);

 private:
  void refresh(Duration oldest);
  void tick();

  Loop& loop_;
  const lease::Leases& leases_;
  std::optional<TimePoint> looked_;
  std::map<std::string, lease::Outlook> places_;
  std::map<DeviceId, std::string> holders_;
  std::map<std::uint64_t, std::function<void()>> followers_;
  std::uint64_t next_ = 0;
  Subscription timer_;
};

// Why somebody waits, in words: what it is, why, and what to do.

// The board of all streams and answers; made when it is first wanted.
LeaseBoard& board_of(Context&);

protocol::LeasePlace place_of(Context&, const lease::Lease&, const lease::Outlook&,
                              const Viewer& = {});

// A lease with its place, if it has one that is known.
protocol::Lease placed_view_of(Context&, const lease::Lease&, const Viewer& = {});

}  // namespace gpuyard::api
