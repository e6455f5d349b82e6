// The processes that leases are bound to: who they are, and when they are gone. Lives on the io
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/loop.h"
#include "lease/gpu_book.h"
#include "lease/observer.h"

namespace gpuyard::lease {

class Holders {
 public:
  using Gone = std::function<void(const std::string& lease, const Process&)>;
  using Found = std::function<void(Result<Identity>)>;

  // These outlive it. Each that is known takes two descriptors: where more than `most_known` are,
  // those without a lease are forgotten.
  Holders(Loop& loop, Observer& observer, std::size_t most_known, Gone gone)
      : loop_(loop), observer_(observer), most_known_(most_known), gone_(std::move(gone)) {}

  // Who has this number now. One who has had a lease is told at once, inside the call; who only
  // asks is not kept.
  void identify(std::uint32_t pid, const Found&);
  // gone() is told once when it is gone, never inside the call. Of one that is gone already it is
  // told, too: its descriptor says so.
  void bind(const std::string& lease, const Identity&);
  void release(const std::string& lease, const std::vector<Process>& of);
  void clear();

 private:
  struct Known {
    Identity identity;
    std::set<std::string> leases = {};
    Subscription gone = {};
  };

  Known& keep(const Identity&);
  void on_gone(std::uint32_t pid);
  void make_room();

  Loop& loop_;
  Observer& observer_;
  const std::size_t most_known_;
  Gone gone_;
  std::map<std::uint32_t, Known> known_;  // by pid, which is nobody else's before it is gone
  Lifetime here_;
};

// Whether somebody is there for a claim: a request that waits, or a stream that stays. Pure
// bookkeeping on the io thread.

enum class Attendance : std::uint8_t {
  poll,    // its end says nothing: the caller asks again
  stream,  // its end is its holder's, unless he comes back soon
};

class Presence {
 public:
  explicit Presence(const Loop& loop) : loop_(loop) {}
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

  // As long as this lives.
  Subscription attend(const std::string& lease, Attendance);
  // Since when nobody is there; nothing while somebody is. `since` is when it began to matter.
  std::optional<TimePoint> away_since(const std::string& lease, TimePoint since) const;
  // The same of streams; nothing, too, if there never was one.
  std::optional<TimePoint> stream_gone_since(const std::string& lease) const;
  void forget(const std::string& lease) { seats_.erase(lease); }

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
  Lifetime here_;
};

// What is still to be seen gone of leases that were given up. Pure.

// Whether everything of a lease is gone: none of its processes lives, none is on its GPUs, and
// their memory is free again. Else what is left, for people.
class DrainBook {
 public:
  // A driver keeps some memory of a process for a moment; more than this is still somebody's.
  static constexpr std::int64_t kSlackBytes = std::int64_t{512} << 20;

  // What was used of a GPU while nobody used it.
  void note_floor(const DeviceId& gpu, std::int64_t used_bytes) { floor_[gpu] = used_bytes; }
  // Its processes that have to go: those on its GPUs, and those that may still begin to use them.
  // Who gave up a lease himself may live on.
  static std::vector<Process> remaining(const Lease&, const Sight&);
  // Nothing: all is gone.
  std::optional<std::string> left(const Lease&, const Sight&, const GpuBook&) const;

 private:
  std::optional<std::string> left_on(const Lease&, const DeviceId&, const Sight&) const;

  std::map<DeviceId, std::int64_t> floor_;
};

}  // namespace gpuyard::lease
