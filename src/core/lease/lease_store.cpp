#include "core/lease/lease_store.h"

#include <algorithm>

namespace gpuyard::lease {

bool Journal::Batch::empty() const {
  return after.empty() && entry.events.empty() && entry.leases.empty() && entry.cordoned.empty() &&
         entry.uncordoned.empty() && entry.forgotten.empty();
}

void Journal::load(std::function<void(Result<Kept>)> loaded) {
  ++life_;
  under_way_.reset();
  next_ = {};
  auto heard = here_.guard([this, life = life_, loaded = std::move(loaded)](Result<Kept> kept) {
    if (life_ == life) loaded(std::move(kept));
  });
  if (archive_.load(heard)) return;
  loop_.post([heard] { heard(Error{Errc::unavailable, "the disk queue is full"}); });
}

void Journal::take(std::vector<Lease> leases) {
  const auto before = std::exchange(kept_, {});
  decided_.clear();
  over_ = {};
  with_gpus_.clear();
  std::ranges::sort(leases, {}, &Lease::ended_wall);
  for (Lease& lease : leases) {
    index(lease, State::waiting);
    const std::string id = lease.id;
    decided_.insert_or_assign(id, lease);
    kept_.insert_or_assign(id, std::move(lease));
  }
  tell_what_changed(before);
}

// Tells what changed since leases were last told. A change decided before the disk failed may be
// there all the same.
void Journal::tell_what_changed(const std::map<std::string, Lease, std::less<>>& before) {
  for (const auto& [id, known] : before) {
    const auto now = kept_.find(id);
    if (now == kept_.end() || now->second.state == known.state) continue;
    loop_.post(here_.guard(
        [this, lease = now->second, state = known.state] { listener_.changed(lease, state); }));
  }
}

void Journal::put_silently(const Lease& lease) {
  decided_.insert_or_assign(lease.id, lease);
  auto& leases = next_.entry.leases;
  const auto [place, added] = next_.place.emplace(lease.id, leases.size());
  if (added) {
    leases.push_back(lease);
  } else {
    leases[place->second] = lease;
  }
  touch();
}

void Journal::put(const Lease& lease, std::string what, std::string by) {
  next_.entry.events.push_back({lease.id, loop_.wall(), std::move(what), std::move(by), {}});
  put_silently(lease);
}

void Journal::counters(Ticket last_ticket, Fence last_fence) {
  next_.entry.last_ticket = last_ticket;
  next_.entry.last_fence = last_fence;
}

void Journal::cordon(const Cordon& cordon) {
  next_.entry.events.push_back(
      {{}, cordon.since, "cordoned: " + cordon.reason, cordon.by, cordon.gpu});
  cordon_silently(cordon);
}

void Journal::cordon_silently(const Cordon& cordon) {
  std::erase(next_.entry.uncordoned, cordon.gpu);
  next_.entry.cordoned.push_back(cordon);
  touch();
}

void Journal::note(const DeviceId& gpu, std::string what, const std::string& by) {
  next_.entry.events.push_back({{}, loop_.wall(), std::move(what), by, gpu});
  touch();
}

void Journal::uncordon(const DeviceId& gpu, const std::string& by) {
  next_.entry.events.push_back({{}, loop_.wall(), "uncordoned", by, gpu});
  std::erase_if(next_.entry.cordoned, [&](const Cordon& cordon) { return cordon.gpu == gpu; });
  next_.entry.uncordoned.push_back(gpu);
  touch();
}

void Journal::after(Done done) {
  next_.after.push_back(std::move(done));
  touch();
}

std::vector<const Lease*> Journal::with_gpus() const {
  std::vector<const Lease*> leases;
  for (const std::string& id : with_gpus_) leases.push_back(&kept_.find(id)->second);
  return leases;
}

const Lease* Journal::find(std::string_view id) const {
  const auto found = decided_.find(id);
  return found == decided_.end() ? nullptr : &found->second;
}

// Collects all that is decided in this turn of the loop into one entry.
void Journal::touch() {
  if (std::exchange(due_, true)) return;
  loop_.post(here_.guard([this] {
    due_ = false;
    save();
  }));
}

void Journal::save() {
  if (under_way_ || next_.empty()) return;
  const auto batch = std::make_shared<Batch>(std::exchange(next_, {}));
  under_way_ = batch;
  const auto heard = here_.guard([this, batch, life = life_](const Result<void>& done) {
    if (life_ == life) on_saved(batch, done);
  });
  const LeaseTransaction& entry = batch->entry;
  if (entry.events.empty() && entry.leases.empty() && entry.forgotten.empty()) {
    loop_.post([heard] { heard(Result<void>()); });  // the caller waits for what is kept already
    return;
  }
  if (archive_.save(entry, heard)) return;
  loop_.post([heard] { heard(Error{Errc::unavailable, "the disk queue is full"}); });
}

void Journal::on_saved(const std::shared_ptr<Batch>& batch, const Result<void>& done) {
  if (!done) return lose(done.error());
  under_way_.reset();
  std::vector<std::pair<Lease, State>> changes;
  for (const Lease& lease : batch->entry.leases) {
    const auto found = kept_.find(lease.id);
    const State before = found == kept_.end() ? State::waiting : found->second.state;
    index(lease, before);
    changes.emplace_back(lease, before);
    kept_.insert_or_assign(lease.id, lease);
  }
  const std::uint64_t life = life_;
  for (const auto& [lease, before] : changes) listener_.changed(lease, before);
  for (const Done& tell : batch->after) tell({});
  if (life == life_) save();
}

void Journal::lose(const Error& why) {
  std::vector<Done> unheard = std::move(under_way_->after);
  std::move(next_.after.begin(), next_.after.end(), std::back_inserter(unheard));
  ++life_;
  under_way_.reset();
  next_ = {};
  listener_.lost(why);
  for (const Done& tell : unheard) tell(why);
}

// Updates the indexes of kept_ after a change of the lease.
void Journal::index(const Lease& lease, State before) {
  if (has_gpus(lease.state)) {
    with_gpus_.insert(lease.id);
  } else {
    with_gpus_.erase(lease.id);
  }
  if (lease.state == State::ended && before != State::ended) {
    over_.add(person_(lease.uid), lease.id, lease.ended_wall.value_or(WallTime{}));
  }
}

void Journal::forget_jobs() {
  std::set<std::string> jobs;
  for (const auto& [id, lease] : kept_) {
    if (lease.wish.binding == Binding::job && lease.state == State::ended) jobs.insert(id);
  }
  over_.remove(jobs);
  for (const std::string& id : jobs) forget(id);
}

void Journal::forget(std::string id) {
  decided_.erase(id);
  kept_.erase(id);
  next_.entry.forgotten.push_back(std::move(id));
  touch();
}

void Journal::forget_old() {
  const WallTime horizon =
      loop_.wall() - std::chrono::duration_cast<std::chrono::milliseconds>(LeaseStorage::kKeptFor);
  for (std::string& id : over_.take_old(horizon, kMostEnded)) forget(std::move(id));
}

}  // namespace gpuyard::lease
