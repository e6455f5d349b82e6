// What must be known again of leases after the daemon was killed, and who keeps it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lease/lease.h"

namespace gpuyard::lease {

// One line of the journal.
struct Event {
  std::string lease;  // "" where it is about a GPU alone
  WallTime at{};
  std::string what;     // "asked", "granted", "released", "draining", "ended", "renewed", ...
  std::string by = {};  // "uid 1000", "pid 4711 exited"
  DeviceId gpu = {};

  friend bool operator==(const Event&, const Event&) = default;
};

// A GPU that is not handed out until somebody says so.
struct Cordon {
  DeviceId gpu;
  std::string by;
  std::string reason;
  WallTime since{};

  friend bool operator==(const Cordon&, const Cordon&) = default;
};

// All of it is kept, or nothing.
struct LeaseEntry {
  std::vector<Event> events = {};
  std::vector<Lease> leases = {};           // in the place of what was kept of them
  std::vector<std::string> forgotten = {};  // ids of leases that are over, before those of `leases`
  Ticket last_ticket = 0;                   // the highest ever; 0: as it was
  Fence last_fence = 0;                     // the same
  std::vector<Cordon> cordoned = {};
  std::vector<DeviceId> uncordoned = {};
};

struct Kept {
  std::vector<Lease> leases;  // all that are not forgotten
  std::vector<Cordon> cordons;
  Ticket last_ticket = 0;
  Fence last_fence = 0;
};

// Lives on the io thread, and does its work elsewhere. What is asked for first is done first, and
// is on the disk - synced - when it is told as kept. False, and nothing happens: too much waits
// already. A callback never runs inside the call it was given to.
class LeaseArchive {
 public:
  virtual ~LeaseArchive() = default;
  virtual bool load(std::function<void(Result<Kept>)> loaded) = 0;
  // After an error it is not known whether it was kept: load() says.
  virtual bool save(LeaseEntry, std::function<void(const Result<void>&)> kept) = 0;
  // What is wrong with it, for people; empty when all is well.
  virtual std::vector<std::string> notes() const = 0;

  // So long is a lease that is over still known, so that asking again is no new claim.
  static constexpr Duration kKeptFor = std::chrono::hours(24);
  // So many lines of the journal are kept.
  static constexpr std::int64_t kEventsKept = 100'000;
};

}  // namespace gpuyard::lease
