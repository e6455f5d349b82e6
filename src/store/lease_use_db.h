// What was used under leases, in usage.db.
#pragma once

#include "lease/use_books.h"
#include "store/state_store.h"

namespace gpuyard::store {

// A day is the number of days since 1970 in UTC; times are nanoseconds. The lease "" is none.
inline constexpr const char* kLeaseUseTables = R"(
CREATE TABLE lease_use(
  day INTEGER NOT NULL,
  lease TEXT NOT NULL,
  gpu TEXT NOT NULL,
  simulated INTEGER NOT NULL,
  uid INTEGER NOT NULL,
  held_ns INTEGER NOT NULL,
  counted_ns INTEGER NOT NULL,
  energy_mj INTEGER NOT NULL,
  estimated_mj INTEGER NOT NULL,
  watched_ns INTEGER NOT NULL,
  busy_ns INTEGER NOT NULL,
  peak_bytes INTEGER,
  PRIMARY KEY(day, lease, gpu, simulated)) STRICT, WITHOUT ROWID;
)";

Result<std::vector<lease::UseRow>> load_use(Database&, lease::Day since,
                                            const std::set<std::string>& leases);
Result<void> save_use(Database&, const std::vector<lease::UseRow>&);
Result<void> forget_use(Database&, lease::Day before);
// As if `unkept` were kept, which it is not. Inside a transaction.
Result<lease::UseAnswer> sum_use(Database&, const lease::UseQuestion&,
                                 const std::vector<lease::UseRow>& unkept);

class LeaseUseDb final : public lease::UseArchive {
 public:
  // The store outlives this.
  explicit LeaseUseDb(StateStore& store) : store_(store) {}

  bool load(lease::Day since, std::set<std::string> leases,
            std::function<void(Result<std::vector<lease::UseRow>>)> loaded) override;
  bool save(std::vector<lease::UseRow>, lease::Day today,
            std::function<void(const Result<void>&)> saved) override;
  bool ask(lease::UseQuestion, std::vector<lease::UseRow> unkept,
           std::function<void(Result<lease::UseAnswer>)> answered) override;
  std::vector<std::string> notes() const override { return store_.notes(); }

 private:
  StateStore& store_;
};

}  // namespace gpuyard::store
