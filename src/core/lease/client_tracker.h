// The clients of leases: whether one is there for a claim, by a request that waits or a stream that
// stays; who is told of changes; and which grants no client has heard of yet. Pure bookkeeping on
// the io thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/loop.h"
#include "core/lease/lease.h"

namespace gpuyard::lease {

enum class Attendance : std::uint8_t {
  poll,    // its end means nothing: the client asks again
  stream,  // its end ends the lease, unless the client returns soon
};

class Clients {
 public:
  explicit Clients(const Loop& loop) : loop_(loop) {}
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  // Marks a client as present for as long as the subscription lives.
  Subscription attend(const std::string& lease, Attendance);
  // Returns since when no client is there, but not before `since`; nothing while one is there.
  std::optional<TimePoint> away_since(const std::string& lease, TimePoint since) const;
  // The same for streams; nothing, too, if there never was one.
  std::optional<TimePoint> stream_gone_since(const std::string& lease) const;

  // Takes a grant, which counts as unheard until heard() unless a client is there.
  void granted(const Lease&);
  void heard(const std::string& lease) { unheard_.erase(lease); }
  bool has_heard(const std::string& lease) const { return unheard_.count(lease) == 0; }
  void forget_grants() { unheard_.clear(); }

  // Tells each change of one lease, until the subscription ends.
  Subscription watch(const std::string& lease, std::function<void(const Lease&)> told);
  void tell(const Lease&);

  // Forgets who is there for a lease that is over. Its watchers stay.
  void forget(const std::string& lease);

 private:
  struct Seat {
    unsigned polls = 0;
    unsigned streams = 0;
    std::optional<TimePoint> last_left = {};
    std::optional<TimePoint> last_stream_left = {};
  };

  void leave(const std::string& lease, Attendance);

  const Loop& loop_;
  std::map<std::string, Seat> seats_;
  std::set<std::string> unheard_;
  std::map<std::string, std::map<std::uint64_t, std::function<void(const Lease&)>>> watchers_;
  std::uint64_t next_watcher_ = 0;
  Lifetime here_;
};

}  // namespace gpuyard::lease
