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

  // `loop` and `observer` outlive it. Each known process takes two descriptors. Above `most_known`
  // processes, those without a lease are forgotten.
  Holders(Loop& loop, Observer& observer, std::size_t most_known, Gone gone)
      : loop_(loop), observer_(observer), most_known_(most_known), gone_(std::move(gone)) {}

  // Finds the process that has this number now. For one that has had a lease, `found` is called
  // inside the call. A process that only asks is not kept.
  void identify(std::uint32_t pid, const Found&);
  // Calls gone() once when the process is gone, never inside this call. That also holds for a
  // process that is gone already: its descriptor tells.
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
  std::map<std::uint32_t, Known> known_;  // by pid, which is not reused before the process is gone
  Lifetime here_;
};

// Knows whether a client is there for a claim: by a request that waits, or a stream that stays.
// Pure bookkeeping on the io thread.

enum class Attendance : std::uint8_t {
  poll,    // its end means nothing: the client asks again
  stream,  // its end ends the lease, unless the client returns soon
};

class Presence {
 public:
  explicit Presence(const Loop& loop) : loop_(loop) {}
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

  // Marks a client as present for as long as the subscription lives.
  Subscription attend(const std::string& lease, Attendance);
  // Returns since when no client is there, but not before `since`; nothing while one is there.
  std::optional<TimePoint> away_since(const std::string& lease, TimePoint since) const;
  // The same for streams; nothing, too, if there never was one.
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

// Finds what is still left of leases that were given up. Pure.

// Tells whether everything of a lease is gone: none of its processes lives, none is on its GPUs,
// and their memory is free again. If not, it names what is left, for people.
class DrainBook {
 public:
  // A driver keeps some memory of a process for a moment; more than this still belongs to a
  // process.
  static constexpr std::int64_t kSlackBytes = std::int64_t{512} << 20;

  // Records how much of a GPU's memory was used while no process used it.
  void note_floor(const DeviceId& gpu, std::int64_t used_bytes) { floor_[gpu] = used_bytes; }
  // Returns the processes of the lease that have to go: those on its GPUs, and those that may still
  // begin to use them. The holder that gave up its lease itself may live on.
  static std::vector<Process> remaining(const Lease&, const Sight&);
  // Returns what is left, or nothing if all is gone.
  std::optional<std::string> left(const Lease&, const Sight&, const GpuBook&) const;

 private:
  std::optional<std::string> left_on(const Lease&, const DeviceId&, const Sight&) const;

  std::map<DeviceId, std::int64_t> floor_;
};

}  // namespace gpuyard::lease
