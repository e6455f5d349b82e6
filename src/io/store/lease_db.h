// Leasing's storage over state.db. Whatever fails, the committed transactions are a prefix of those
// that were requested. Transactions that were reported as committed survive even a corrupt file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/lifetime.h"
#include "base/loop.h"
#include "core/lease/lease.h"
#include "core/lease/lease_storage.h"
#include "io/store/lease_tables.h"
#include "io/store/sqlite.h"
#include "io/store/state_store.h"

namespace gpuyard::store {

// Every transaction is synced: a grant must be, and the others share its group.
// Thread: io.
class LeaseDb final : public lease::LeaseStorage {
 public:
  using OnLoaded = std::function<void(Result<lease::SavedLeases>)>;
  using OnSaved = std::function<void(const Result<void>&)>;

  // `loop` and `store` outlive this.
  LeaseDb(const Loop& loop, StateStore& store) : loop_(loop), store_(store) {}
  LeaseDb(const LeaseDb&) = delete;
  LeaseDb& operator=(const LeaseDb&) = delete;

  bool load(std::vector<lease::Lease> committed, OnLoaded on_done) override;
  // After an error nothing is committed until the next load(): a later transaction may depend on
  // the missing one.
  bool save(std::shared_ptr<const lease::LeaseTransaction>, OnSaved on_done) override;
  std::vector<std::string> notes() const override { return store_.notes(); }

 private:
  // The state that was reported as committed: a corrupt file would lose it.
  struct Acknowledged {
    std::vector<lease::Lease> leases;  // those given to load(), until it has succeeded
    std::map<DeviceId, lease::Cordon> cordons;
    lease::Ticket last_ticket = 0;
    lease::Fence last_fence = 0;
    std::uint64_t entries = 0;

    void apply(const StoredLeases&);
    void apply(const lease::LeaseTransaction&, std::uint64_t number);
    lease::LeaseTransaction to_transaction() const;
  };

  void on_loaded(Result<StoredLeases>, const OnLoaded&);
  // Makes the file hold this, and only this, and loads it.
  void replace_content(lease::LeaseTransaction, const OnLoaded& on_done);

  const Loop& loop_;
  StateStore& store_;
  Acknowledged acknowledged_;
  // A value of `last_number_`: no transaction gets the number after it, so none is committed until
  // the next load().
  static constexpr std::uint64_t kNeedsReload = UINT64_MAX - 1;
  std::uint64_t last_number_ = 0;  // of the last transaction that was requested
  Lifetime lifetime_;
};

}  // namespace gpuyard::store
