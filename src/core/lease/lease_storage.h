// The state of leases that survives a killed daemon, and the interface that persists it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/lease/lease.h"

namespace gpuyard::lease {

// A GPU that is not leased until an administrator uncordons it.
struct Cordon {
  DeviceId gpu;
  std::string by;
  std::string reason;
  WallTime since{};

  friend bool operator==(const Cordon&, const Cordon&) = default;
};

// The GPU of a cordon that covers all GPUs, including later ones: it is set if a row that may
// withhold a GPU is unreadable. An entry for this plus a GPU's id exempts that GPU.
inline constexpr const char* kEveryGpu = "*";

// One transaction: all of it is committed, or nothing.
struct LeaseTransaction {
  std::deque<Lease> leases = {};          // each replaces its stored copy
  std::vector<std::string> removed = {};  // ids of ended leases, deleted before `leases` are stored
  Ticket last_ticket = 0;                 // the highest ever; 0: unchanged
  Fence last_fence = 0;                   // the same
  std::vector<Cordon> cordoned = {};
  std::vector<DeviceId> uncordoned = {};
};

struct SavedLeases {
  std::vector<Lease> leases;  // all that are not pruned
  std::vector<Cordon> cordons;
  Ticket last_ticket = 0;
  Fence last_fence = 0;
};

// Thread: io; the work is done elsewhere. Requests are served in order. A change that is reported
// as saved is on the disk, synced. A method returns false and does nothing if too many requests
// wait already. A callback never runs inside the call it was given to.
class LeaseStorage {
 public:
  virtual ~LeaseStorage() = default;
  // `committed`: the leases that were reported as committed and have not ended. If the disk has
  // lost them, they are stored again.
  virtual bool load(std::vector<Lease> committed,
                    std::function<void(Result<SavedLeases>)> on_loaded) = 0;
  // After an error it is not known whether the transaction was committed; load() shows it.
  virtual bool save(std::shared_ptr<const LeaseTransaction>,
                    std::function<void(const Result<void>&)> on_saved) = 0;
  // Returns what is wrong with the storage, for people; empty when all is well.
  virtual std::vector<std::string> notes() const = 0;

  // An ended lease is known for this long. Until then, a repeated claim with its id is no new
  // claim.
  static constexpr Duration kEndedRetention = std::chrono::hours(24);
};

}  // namespace gpuyard::lease
