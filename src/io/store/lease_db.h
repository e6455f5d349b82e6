// Leasing's archive over state.db. Whatever fails, the entries that are kept are a prefix of those
// that were asked for. Entries that this process was told as kept survive even a corrupt file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/loop.h"
#include "core/lease/lease.h"
#include "core/lease/lease_storage.h"
#include "io/store/lease_tables.h"
#include "io/store/sqlite.h"
#include "io/store/state_db.h"

namespace gpuyard::store {

// Every entry is synced: a grant must be, and the others share its group.
class LeaseDb final : public lease::LeaseStorage {
 public:
  using Loaded = std::function<void(Result<lease::Kept>)>;
  using Saved = std::function<void(const Result<void>&)>;

  // `loop` and `store` outlive this.
  LeaseDb(const Loop& loop, StateStore& store) : loop_(loop), store_(store) {}
  LeaseDb(const LeaseDb&) = delete;
  LeaseDb& operator=(const LeaseDb&) = delete;

  bool load(Loaded loaded) override;
  // After an error no entry is kept until the next load(): a later entry may depend on the missing
  // one.
  bool save(lease::LeaseTransaction, Saved kept) override;
  std::vector<std::string> notes() const override { return store_.notes(); }

 private:
  // The state that was told as kept, without ended leases: a corrupt file would lose it.
  struct Told {
    std::map<std::string, lease::Lease> leases;
    std::map<DeviceId, lease::Cordon> cordons;
    lease::Ticket last_ticket = 0;
    lease::Fence last_fence = 0;
    std::uint64_t entries = 0;

    void take(const StoredLeases&);
    void take(const lease::LeaseTransaction&, std::uint64_t number);
    lease::LeaseTransaction all() const;
  };

  void on_loaded(Result<StoredLeases>, const Loaded&);
  // Makes the file hold this, and only this, and loads it.
  void begin_anew(lease::LeaseTransaction, const Loaded& loaded);

  const Loop& loop_;
  StateStore& store_;
  Told told_;
  // A value of `asked_`: no entry gets the number after it, so none is kept until the next load().
  static constexpr std::uint64_t kUntilItIsRead = UINT64_MAX - 1;
  std::uint64_t asked_ = 0;  // the number of the last entry that was asked to be kept
  Lifetime here_;
};

}  // namespace gpuyard::store
