#include "io/store/lease_db.h"

#include <algorithm>
#include <utility>

#include "base/try.h"
#include "io/store/sqlite.h"
#include "io/store/sqlite_rows.h"

namespace gpuyard::store {
namespace {

using lease::Lease;
using lease::LeaseTransaction;

Error queue_full_error() {
  return {Errc::busy, "the disk queue is full"};
}

Error out_of_order_error() {
  return {Errc::unavailable, "earlier data could not be written; it is read back first"};
}

}  // namespace

void LeaseDb::Acknowledged::apply(const StoredLeases& stored) {
  *this = {{}, {}, stored.saved.last_ticket, stored.saved.last_fence, stored.entries};
  for (const lease::Cordon& cordon : stored.saved.cordons) cordons.emplace(cordon.gpu, cordon);
}

void LeaseDb::Acknowledged::apply(const LeaseTransaction& transaction, std::uint64_t number) {
  for (const Lease& lease : transaction.leases) {
    last_ticket = std::max(last_ticket, lease.ticket);
    last_fence = std::max(last_fence, lease.fence);
  }
  for (const DeviceId& gpu : transaction.uncordoned) cordons.erase(gpu);
  for (const lease::Cordon& cordon : transaction.cordoned)
    cordons.insert_or_assign(cordon.gpu, cordon);
  last_ticket = std::max(last_ticket, transaction.last_ticket);
  last_fence = std::max(last_fence, transaction.last_fence);
  entries = number;
}

LeaseTransaction LeaseDb::Acknowledged::to_transaction() const {
  LeaseTransaction transaction;
  transaction.leases = {leases.begin(), leases.end()};
  for (const auto& [gpu, cordon] : cordons) transaction.cordoned.push_back(cordon);
  transaction.last_ticket = last_ticket;
  transaction.last_fence = last_fence;
  return transaction;
}

bool LeaseDb::load(std::vector<Lease> committed, OnLoaded on_done) {
  acknowledged_.leases = std::move(committed);
  const auto stored = std::make_shared<Result<StoredLeases>>(StoredLeases{});
  return store_.run(
      Requester::daemon(),
      [stored](Database& database) -> Result<void> {
        *stored = load_leases(database);
        return *stored ? Result<void>() : stored->error();
      },
      lifetime_.guard([this, stored, on_done = std::move(on_done)](const Result<void>& done) {
        on_loaded(done ? std::move(*stored) : Result<StoredLeases>(done.error()), on_done);
      }));
}

void LeaseDb::on_loaded(Result<StoredLeases> stored, const OnLoaded& on_done) {
  if (!stored) return on_done(std::move(stored).error());
  // This is not the file that we wrote to.
  if (stored->entries < acknowledged_.entries)
    return replace_content(acknowledged_.to_transaction(), on_done);
  if (stored->replaces_corrupt_file) {
    // The counter of the corrupt file is unknown.
    LeaseTransaction transaction;
    transaction.last_fence = fence_of(loop_.wall());
    return replace_content(std::move(transaction), on_done);
  }
  last_number_ = stored->entries;
  acknowledged_.apply(*stored);
  on_done(std::move(stored->saved));
}

void LeaseDb::replace_content(LeaseTransaction transaction, const OnLoaded& on_done) {
  const bool taken = store_.run(
      Requester::daemon(),
      [transaction = std::make_shared<const LeaseTransaction>(std::move(transaction)),
       number = acknowledged_.entries + 1](Database& database) -> Result<void> {
        GPUYARD_TRY(delete_leases(database));
        return save_leases(database, *transaction, number);
      },
      lifetime_.guard([this, on_done](const Result<void>& done) {
        if (!done) return on_done(done.error());
        if (!load(std::move(acknowledged_.leases), on_done)) on_done(queue_full_error());
      }));
  if (!taken) on_done(queue_full_error());
}

bool LeaseDb::save(std::shared_ptr<const LeaseTransaction> transaction, OnSaved on_done) {
  const auto in_order = std::make_shared<bool>(false);
  const std::uint64_t number = last_number_ + 1;
  const bool taken = store_.run(
      Requester::daemon(),
      [transaction, in_order, number](Database& database) -> Result<void> {
        const auto before = GPUYARD_TRY(count_entries(database));
        *in_order = before + 1 == number;
        return *in_order ? save_leases(database, *transaction, number) : Result<void>();
      },
      lifetime_.guard([this, transaction, in_order, number,
                       on_done = std::move(on_done)](const Result<void>& done) {
        const Result<void> result = done && !*in_order ? Result<void>(out_of_order_error()) : done;
        if (result) {
          acknowledged_.apply(*transaction, number);
        } else {
          last_number_ = kNeedsReload;  // the disk may have the transaction or not
        }
        on_done(result);
      }),
      Durability::full);
  if (taken && last_number_ != kNeedsReload) last_number_ = number;
  return taken;
}

}  // namespace gpuyard::store
