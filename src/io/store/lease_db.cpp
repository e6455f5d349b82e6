#include "io/store/lease_db.h"

#include <algorithm>
#include <utility>

#include "io/store/sqlite.h"

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

void LeaseDb::Acknowledged::apply(const StoredLeases& book) {
  *this = {};
  LeaseTransaction entry;
  entry.leases = book.saved.leases;
  entry.cordoned = book.saved.cordons;
  entry.last_ticket = book.saved.last_ticket;
  entry.last_fence = book.saved.last_fence;
  apply(entry, book.entries);
}

void LeaseDb::Acknowledged::apply(const LeaseTransaction& entry, std::uint64_t number) {
  for (const Lease& lease : entry.leases) {
    if (lease.state == lease::LeaseState::ended) {
      leases.erase(lease.id);
    } else {
      leases.insert_or_assign(lease.id, lease);
    }
    last_ticket = std::max(last_ticket, lease.ticket);
    last_fence = std::max(last_fence, lease.fence);
  }
  for (const DeviceId& gpu : entry.uncordoned) cordons.erase(gpu);
  for (const lease::Cordon& cordon : entry.cordoned) cordons.insert_or_assign(cordon.gpu, cordon);
  last_ticket = std::max(last_ticket, entry.last_ticket);
  last_fence = std::max(last_fence, entry.last_fence);
  entries = number;
}

LeaseTransaction LeaseDb::Acknowledged::to_transaction() const {
  LeaseTransaction entry;
  for (const auto& [id, lease] : leases) entry.leases.push_back(lease);
  for (const auto& [gpu, cordon] : cordons) entry.cordoned.push_back(cordon);
  entry.last_ticket = last_ticket;
  entry.last_fence = last_fence;
  return entry;
}

bool LeaseDb::load(OnLoaded loaded) {
  const auto answer = std::make_shared<Result<StoredLeases>>(StoredLeases{});
  return store_.run(
      Requester::daemon(),
      [answer](Database& database) -> Result<void> {
        *answer = load_leases(database);
        return *answer ? Result<void>() : answer->error();
      },
      lifetime_.guard([this, answer, loaded = std::move(loaded)](const Result<void>& done) {
        on_loaded(done ? std::move(*answer) : Result<StoredLeases>(done.error()), loaded);
      }));
}

void LeaseDb::on_loaded(Result<StoredLeases> book, const OnLoaded& loaded) {
  if (!book) return loaded(std::move(book).error());
  // This is not the file that we wrote to.
  if (book->entries < acknowledged_.entries)
    return replace_content(acknowledged_.to_transaction(), loaded);
  if (book->replaces_corrupt_file) {
    // The counter of the corrupt file is unknown.
    LeaseTransaction entry;
    entry.last_fence = fence_of(loop_.wall());
    return replace_content(std::move(entry), loaded);
  }
  last_number_ = book->entries;
  acknowledged_.apply(*book);
  loaded(std::move(book->saved));
}

void LeaseDb::replace_content(LeaseTransaction entry, const OnLoaded& loaded) {
  entry.events = {{"", loop_.wall(), "began_anew", "", ""}};
  const bool taken = store_.run(
      Requester::daemon(),
      [entry = std::make_shared<const LeaseTransaction>(std::move(entry)),
       number = acknowledged_.entries + 1](Database& database) -> Result<void> {
        if (auto done = delete_leases(database); !done) return done;
        return save_leases(database, *entry, number);
      },
      lifetime_.guard([this, loaded](const Result<void>& done) {
        if (!done) return loaded(done.error());
        if (!load(loaded)) loaded(queue_full_error());
      }));
  if (!taken) loaded(queue_full_error());
}

bool LeaseDb::save(LeaseTransaction entry, OnSaved kept) {
  const auto shared = std::make_shared<const LeaseTransaction>(std::move(entry));
  const auto in_order = std::make_shared<bool>(false);
  const std::uint64_t number = last_number_ + 1;
  const bool taken = store_.run(
      Requester::daemon(),
      [shared, in_order, number](Database& database) -> Result<void> {
        const auto before = count_entries(database);
        if (!before) return before.error();
        *in_order = *before + 1 == number;
        return *in_order ? save_leases(database, *shared, number) : Result<void>();
      },
      lifetime_.guard([this, shared, in_order, number,
                       kept = std::move(kept)](const Result<void>& done) {
        const Result<void> told = done && !*in_order ? Result<void>(out_of_order_error()) : done;
        if (told) {
          acknowledged_.apply(*shared, number);
        } else {
          last_number_ = kNeedsReload;  // even if the disk has the entry: that is not known yet
        }
        kept(told);
      }),
      Durability::full);
  if (taken && last_number_ != kNeedsReload) last_number_ = number;
  return taken;
}

}  // namespace gpuyard::store
