// Makes leases from what was kept: at the start, and whenever it is not known what the disk holds.
#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "core/lease/lease_manager.h"

namespace gpuyard::lease {

void Leases::start() {
  load();
}

void Leases::stop() {
  standing_ = Standing::idle;
  core_.close();
  tick_timer_.reset();
  drain_timer_.reset();
  load_timer_.reset();
  restoring_.timer.reset();
}

void Leases::load() {
  standing_ = Standing::loading;
  journal_.load([this](Result<Kept> kept) { on_loaded(std::move(kept)); });
}

void Leases::on_lost(const Error& why) {
  if (!trouble_) log::error("leases: no lease can be granted now: {}", why.text());
  trouble_ = why;
  ++life_;
  core_.close();
  if (standing_ == Standing::idle) return;
  standing_ = Standing::loading;
  load_timer_ = loop_.call_after(kLoadAgain, [this] { load(); });
}

void Leases::on_loaded(Result<Kept> kept) {
  if (standing_ == Standing::idle) return;
  if (!kept) return on_lost(kept.error());
  ++life_;
  const Fairness fairness = core_.fairness();
  core_ = Core(fairness);
  core_.close();
  gpus_.start_over();
  core_.restore_counters(kept->last_ticket, kept->last_fence);
  by_ticket_.clear();
  limits_.nobody_waits();
  holders_.clear();
  alive_.clear();
  leftover_.clear();
  looking_ = looking_at_new_ = drain_looking_ = false;
  restoring_ = {};
  restoring_.to_rebind = 1;  // all leases are restored before anything follows
  while (!signals_.empty()) drop_signals(std::string(signals_.begin()->first), false);
  clients_.forget_grants();
  for (const Cordon& cordon : kept->cordons) gpus_.cordon(cordon);
  journal_.take(kept->leases);
  journal_.forget_old();
  standing_ = Standing::adopting;
  for (const Lease& lease : kept->leases) {
    if (lease.wish.binding == Binding::job) observe_only();
    if (lease.state != State::ended) {
      restore(lease);
    } else if (lease.overdue && lease.ended_wall) {
      const Duration ago = loop_.wall() - *lease.ended_wall;
      core_.restore_mistrust(person(lease.uid), loop_.now() + Core::kTrustLost - ago);
    }
  }
  first_load_ = false;
  --restoring_.to_rebind;
  if (gpus_.complete()) reach_anew();
  open_if_ready();
}

void Leases::restore(const Lease& kept) {
  Lease lease = kept;
  if (lease.boot_id != boot_id_) {
    lease.state = State::ended;
    lease.ending = Ending::node_reboot;
    lease.ended_wall = loop_.wall();
    return journal_.put(lease, "ended", "the machine was rebooted");
  }
  by_ticket_[lease.ticket] = lease.id;
  if (lease.state == State::waiting) limits_.waits(lease.uid);
  restore_in_core(lease);
  if (lease.until && first_load_ && lease.state == State::held) {
    lease.until = std::max(*lease.until, loop_.now() + kLeastAfterRestart);
    journal_.put_silently(lease);
  }
  wake_by(loop_.now() + kTick);
  if (lease.state == State::draining) return;
  if (lease.wish.binding == Binding::detached || lease.wish.binding == Binding::job) return;
  for (const Process& process : lease.processes) rebind(lease.id, process);
}

void Leases::restore_in_core(const Lease& lease) {
  Claim claim;
  claim.ticket = lease.ticket;
  claim.terms = terms_of(lease.uid, lease.wish);
  claim.fence = lease.fence;
  claim.granted = lease.granted;
  claim.passed = lease.passed;
  claim.overdue = lease.overdue;
  if (lease.state == State::held) claim.stage = Claim::Stage::held;
  if (lease.state == State::draining) claim.stage = Claim::Stage::draining;
  for (const DeviceId& gpu : lease.gpus) {
    if (const auto slot = gpus_.slot_of(gpu)) claim.gpus.set(*slot);
  }
  core_.restore(claim);
}

// Checks whether a process that is bound to a lease is still the same one.
void Leases::rebind(const std::string& id, const Process& process) {
  ++restoring_.to_rebind;
  holders_.identify(process.pid, [this, id, process, life = life_](const Result<Identity>& found) {
    if (life != life_) return;
    if (!found && found.error().code != Errc::not_found) {  // this says nothing of the process
      restoring_.rebind_later.emplace_back(id, process);
      if (restoring_.rebind_later.size() == 1) {
        restoring_.timer = loop_.call_after(kAskAgain, [this] { rebind_again(); });
      }
      return;
    }
    --restoring_.to_rebind;
    if (found && found->process == process) {
      holders_.bind(id, *found);
    } else {
      on_gone(id, process);
    }
    open_if_ready();
  });
}

void Leases::rebind_again() {
  for (const auto& [id, process] : std::exchange(restoring_.rebind_later, {})) {
    --restoring_.to_rebind;
    rebind(id, process);
  }
}

// Nothing is granted before the users of the GPUs are known.
void Leases::look_at_restored() {
  if (std::exchange(restoring_.looking, true)) return;
  observer_.look(suspects(false), gpus_.ids(), true,
                 here_.guard([this, life = life_](const Sight& sight) {
                   if (life_ == life) on_restored_seen(sight);
                 }));
}

void Leases::on_restored_seen(const Sight& sight) {
  const bool blind = !sight.on_gpus.empty() && !sight.lists_any();
  restoring_.looking = false;
  if (blind) {
    restoring_.timer = loop_.call_after(kAskAgain, [this] { look_at_restored(); });
    return;
  }
  restoring_.seen = true;
  look_outside(sight);
  open_if_ready();
}

void Leases::open_if_ready() {
  if (standing_ != Standing::adopting || restoring_.to_rebind > 0 || !gpus_.complete()) return;
  if (!restoring_.seen) return look_at_restored();
  standing_ = Standing::open;
  opened_ = loop_.now();
  if (trouble_) log::info("leases: the journal can be read and written again");
  trouble_.reset();
  if (gpus_.observes_only()) end_waiting();
  follow(core_.open(loop_.now()));
  look_at_new();
  drain();
}

std::optional<Error> Leases::closed() const {
  if (trouble_) {
    return Error{Errc::unavailable,
                 fmt::format("leases cannot be granted or changed now, because the journal cannot "
                             "be written: {}; held leases stay held",
                             trouble_->text())};
  }
  if (standing_ == Standing::open) return std::nullopt;
  // The leases are checked once the GPUs are listed.
  if (standing_ == Standing::adopting && !gpus_.complete()) return closed_to_claims();
  return Error{
      Errc::unavailable,
      standing_ == Standing::idle
          ? "the daemon is shutting down"
          : "the leases from before the restart are still being checked; try again in a moment"};
}

// Kept leases may change before it is known which of their processes still live.
std::optional<Error> Leases::closed_to_changes() const {
  return standing_ == Standing::adopting ? std::nullopt : closed();
}

std::optional<Error> Leases::closed_to_claims() const {
  if (auto why = closed_to_changes()) return why;
  if (gpus_.complete()) return std::nullopt;
  return Error{Errc::unavailable,
               "the GPUs are not known yet, or the driver is missing (run gpuyard doctor)"};
}

std::vector<std::string> Leases::notes() const {
  std::vector<std::string> notes;
  if (const auto why = closed(); why && standing_ != Standing::idle) notes.push_back(why->text());
  if (!trouble_) std::ranges::copy(journal_.notes(), std::back_inserter(notes));
  for (const auto& [ticket, id] : by_ticket_) {
    const Lease* lease = find(id);
    if (!lease || lease->state != State::draining || !lease->let_go_wall) continue;
    if (loop_.wall() - *lease->let_go_wall < kLongDrain) continue;
    notes.push_back(fmt::format("lease {} has been draining since {}: {}", id,
                                to_rfc3339(*lease->let_go_wall), lease->why));
  }
  return notes;
}

}  // namespace gpuyard::lease
