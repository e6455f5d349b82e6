#include "core/lease/lease_store.h"

#include <algorithm>

namespace gpuyard::lease {

void refuse(Loop& loop, const Error& why, const OnLease& on_lease) {
  loop.post([on_lease, why] { on_lease(why); });
}

const Lease* LeaseStore::Batch::find(std::string_view id) const {
  const auto found = positions.find(id);
  return found == positions.end() ? nullptr : &transaction->leases[found->second];
}

bool LeaseStore::Batch::has_changes() const {
  return !transaction->leases.empty() || !transaction->cordoned.empty() ||
         !transaction->uncordoned.empty() || !transaction->removed.empty();
}

void LeaseStore::load(std::function<void(Result<SavedLeases>)> on_loaded) {
  ++generation_;
  batch_in_flight_.reset();
  next_batch_ = {};
  auto on_reply = lifetime_.guard([this, generation = generation_,
                                   on_loaded = std::move(on_loaded)](Result<SavedLeases> saved) {
    if (generation_ == generation) on_loaded(std::move(saved));
  });
  std::vector<Lease> committed;
  for (const auto& [id, lease] : committed_) {
    if (lease.state != LeaseState::ended) committed.push_back(lease);
  }
  if (storage_.load(std::move(committed), on_reply)) return;
  loop_.post([on_reply] { on_reply(Error{Errc::unavailable, "the disk queue is full"}); });
}

void LeaseStore::accept_loaded(std::vector<Lease> leases) {
  const auto before = std::exchange(committed_, {});
  ended_ = {};
  ids_with_gpus_.clear();
  std::ranges::sort(leases, {}, &Lease::ended_wall);
  for (const Lease& lease : leases) {
    update_indexes(lease, LeaseState::waiting);
    committed_.emplace(lease.id, lease);
  }
  notify_changes(before);
}

// Notifies of what changed since the last notification. A change decided before the disk failed may
// be there all the same.
void LeaseStore::notify_changes(const std::map<std::string, Lease, std::less<>>& before) {
  for (const auto& [id, known] : before) {
    const auto now = committed_.find(id);
    if (now == committed_.end() || now->second.state == known.state) continue;
    loop_.post(lifetime_.guard(
        [this, lease = now->second, state = known.state] { callbacks_.on_changed(lease, state); }));
  }
}

void LeaseStore::stage(const Lease& lease) {
  auto& leases = next_batch_.transaction->leases;
  const auto [position, added] = next_batch_.positions.emplace(lease.id, leases.size());
  if (added) {
    leases.push_back(lease);
  } else {
    leases[position->second] = lease;
  }
  schedule_save();
}

void LeaseStore::stage_counters(Ticket last_ticket, Fence last_fence) {
  next_batch_.transaction->last_ticket = last_ticket;
  next_batch_.transaction->last_fence = last_fence;
}

void LeaseStore::stage_cordon(const Cordon& cordon) {
  std::erase(next_batch_.transaction->uncordoned, cordon.gpu);
  next_batch_.transaction->cordoned.push_back(cordon);
  schedule_save();
}

void LeaseStore::stage_uncordon(const DeviceId& gpu) {
  std::erase_if(next_batch_.transaction->cordoned,
                [&](const Cordon& cordon) { return cordon.gpu == gpu; });
  next_batch_.transaction->uncordoned.push_back(gpu);
  schedule_save();
}

void LeaseStore::when_committed(OnDone on_done) {
  next_batch_.on_committed.push_back(std::move(on_done));
  schedule_save();
}

void LeaseStore::answer_when_committed(const std::string& id, const OnLease& on_lease) {
  when_committed([this, id, on_lease](const Result<void>& committed) {
    if (!committed) return on_lease(Error(committed.error()).in("the journal of leases"));
    const Lease* lease = find_committed(id);
    if (!lease) return on_lease(unknown_lease_error(id));
    on_lease(*lease);
  });
}

std::vector<const Lease*> LeaseStore::leases_with_gpus() const {
  std::vector<const Lease*> leases;
  for (const std::string& id : ids_with_gpus_) leases.push_back(&committed_.find(id)->second);
  return leases;
}

const Lease* LeaseStore::find_committed(std::string_view id) const {
  const auto found = committed_.find(id);
  return found == committed_.end() ? nullptr : &found->second;
}

const Lease* LeaseStore::find_latest(std::string_view id) const {
  const Lease* found = next_batch_.find(id);
  if (!found && batch_in_flight_) found = batch_in_flight_->find(id);
  return found ? found : find_committed(id);
}

// Collects all that is decided in this turn of the loop into one transaction.
void LeaseStore::schedule_save() {
  if (std::exchange(save_scheduled_, true)) return;
  loop_.post(lifetime_.guard([this] {
    save_scheduled_ = false;
    save();
  }));
}

void LeaseStore::save() {
  if (batch_in_flight_ || next_batch_.empty()) return;
  const auto batch = std::make_shared<Batch>(std::exchange(next_batch_, {}));
  batch_in_flight_ = batch;
  const auto on_reply =
      lifetime_.guard([this, batch, generation = generation_](const Result<void>& done) {
        if (generation_ == generation) on_saved(batch, done);
      });
  if (!batch->has_changes()) {
    loop_.post([on_reply] {
      on_reply(Result<void>());
    });  // the caller waits for what is committed already
    return;
  }
  if (storage_.save(batch->transaction, on_reply)) return;
  loop_.post([on_reply] { on_reply(Error{Errc::unavailable, "the disk queue is full"}); });
}

void LeaseStore::on_saved(const std::shared_ptr<Batch>& batch, const Result<void>& done) {
  if (!done) return discard_uncommitted(done.error());
  batch_in_flight_.reset();
  std::vector<std::pair<const Lease*, LeaseState>> changes;
  for (const Lease& lease : batch->transaction->leases) {
    const Lease* known = find_committed(lease.id);
    const LeaseState before = known ? known->state : LeaseState::waiting;
    update_indexes(lease, before);
    changes.emplace_back(&lease, before);
    committed_.insert_or_assign(lease.id, lease);
  }
  const std::uint64_t generation = generation_;
  for (const auto& [lease, before] : changes) callbacks_.on_changed(*lease, before);
  for (const OnDone& on_done : batch->on_committed) on_done({});
  if (generation == generation_) save();
}

void LeaseStore::discard_uncommitted(const Error& why) {
  std::vector<OnDone> callbacks = std::move(batch_in_flight_->on_committed);
  std::move(next_batch_.on_committed.begin(), next_batch_.on_committed.end(),
            std::back_inserter(callbacks));
  ++generation_;
  batch_in_flight_.reset();
  next_batch_ = {};
  callbacks_.on_lost(why);
  for (const OnDone& on_done : callbacks) on_done(why);
}

// Updates the indexes of committed_ after a change of the lease.
void LeaseStore::update_indexes(const Lease& lease, LeaseState before) {
  if (has_gpus(lease.state)) {
    ids_with_gpus_.insert(lease.id);
  } else {
    ids_with_gpus_.erase(lease.id);
  }
  if (lease.state == LeaseState::ended && before != LeaseState::ended) {
    ended_.add(quota_owner_(lease.uid), lease.id, lease.ended_wall.value_or(WallTime{}));
  }
}

void LeaseStore::prune_ended_jobs() {
  std::set<std::string> jobs;
  for (const auto& [id, lease] : committed_) {
    if (lease.spec.binding == Binding::job && lease.state == LeaseState::ended) jobs.insert(id);
  }
  ended_.remove(jobs);
  for (const std::string& id : jobs) prune(id);
}

void LeaseStore::prune(std::string id) {
  committed_.erase(id);
  next_batch_.transaction->removed.push_back(std::move(id));
  schedule_save();
}

void LeaseStore::prune_ended() {
  const WallTime horizon = loop_.wall() - std::chrono::duration_cast<std::chrono::milliseconds>(
                                              LeaseStorage::kEndedRetention);
  for (std::string& id : ended_.evict(horizon, kMaxEndedLeases)) prune(std::move(id));
}

}  // namespace gpuyard::lease
