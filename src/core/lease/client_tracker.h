// The clients of leases: whether one is present for a claim, by a request that waits or a stream
// that stays; the subscribers to changes; and which grants no client has acknowledged yet.
//
// Thread: io. The loop outlives the tracker.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/lifetime.h"
#include "base/loop.h"
#include "core/lease/lease.h"

namespace gpuyard::lease {

enum class PresenceKind : std::uint8_t {
  poll,    // its end means nothing: the client polls again
  stream,  // its end ends the lease, unless the client returns soon
};

class ClientTracker {
 public:
  explicit ClientTracker(const Loop& loop) : loop_(loop) {}
  ClientTracker(const ClientTracker&) = delete;
  ClientTracker& operator=(const ClientTracker&) = delete;

  // Marks a client as present for as long as the subscription lives.
  Subscription mark_present(const std::string& lease, PresenceKind);
  // Returns since when no client is present, but not before `since`; nothing while one is.
  std::optional<TimePoint> away_since(const std::string& lease, TimePoint since) const;
  // The same for streams; nothing, too, if there never was one.
  std::optional<TimePoint> stream_gone_since(const std::string& lease) const;

  // Records a grant, which is unacknowledged until acknowledge_grant() unless a client is present.
  void record_grant(const Lease&);
  void acknowledge_grant(const std::string& lease) { unacknowledged_.erase(lease); }
  bool is_grant_acknowledged(const std::string& lease) const {
    return unacknowledged_.count(lease) == 0;
  }
  void clear_grants() { unacknowledged_.clear(); }

  // Notifies of each change of one lease, until the subscription ends.
  Subscription subscribe(const std::string& lease, std::function<void(const Lease&)> on_change);
  void notify(const Lease&);

  // Removes the presences for a lease that has ended. Its subscribers stay.
  void remove(const std::string& lease);

 private:
  struct ClientPresence {
    unsigned polls = 0;
    unsigned streams = 0;
    std::optional<TimePoint> last_left_at = {};
    std::optional<TimePoint> last_stream_left_at = {};
  };

  void mark_absent(const std::string& lease, PresenceKind);

  const Loop& loop_;
  std::map<std::string, ClientPresence> presences_;
  std::set<std::string> unacknowledged_;
  std::map<std::string, std::map<std::uint64_t, std::function<void(const Lease&)>>> subscribers_;
  std::uint64_t last_subscriber_ = 0;
  Lifetime lifetime_;
};

}  // namespace gpuyard::lease
