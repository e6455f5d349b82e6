// Changes of leases without a request: time passes, GPUs and processes come and go.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "core/lease/lease_manager.h"

namespace gpuyard::lease {
namespace {

constexpr std::string_view kStill = "; still: ";

// Returns an administrator's reason, without the text of what is left that follows it.
std::string reason_of(const Lease& lease) {
  return lease.ending == Ending::forced ? lease.why.substr(0, lease.why.find(kStill)) : "";
}

// Looks become rarer the longer a drain lasts.
Duration until_next_look(Duration draining) {
  return draining < std::chrono::seconds(5) ? Leases::kDrainLook : 4 * Leases::kDrainLook;
}

// Returns the processes that belong to the lease until they exit.
std::vector<Process> lasting(const Sight& sight, const std::string& lease) {
  std::vector<Process> some = sight.alive.at(lease);
  const auto others = sight.by_container.find(lease);
  if (others == sight.by_container.end()) return some;
  std::erase_if(some, [&](const Process& one) {
    return std::ranges::find(others->second, one) != others->second.end();
  });
  return some;
}

}  // namespace

void Leases::wake_by(TimePoint when) {
  if (standing_ == Standing::idle || (tick_at_ && *tick_at_ <= when)) return;
  tick_at_ = when;
  tick_timer_ = loop_.call_at(when, [this] { tick(); });
}

// The timer stops while there is no lease.
void Leases::tick() {
  tick_at_.reset();
  if (standing_ == Standing::open) {
    std::vector<std::string> live;
    live.reserve(by_ticket_.size());
    for (const auto& [ticket, id] : by_ticket_) live.push_back(id);
    for (const std::string& id : live) {
      if (const Lease* lease = journal_.find(id)) tick_lease(*lease);
    }
    follow(core_.advance(loop_.now()));
    journal_.forget_old();
  }
  if (!by_ticket_.empty()) wake_by(loop_.now() + kTick);
}

void Leases::tick_lease(const Lease& lease) {
  const TimePoint now = loop_.now();
  if (lease.state == State::waiting) {
    if (lease.wish.patience && now - lease.asked >= *lease.wish.patience) {
      return end(lease, Ending::gave_up, "its waiting time ran out");
    }
    const auto away = clients_.away_since(lease.id, std::max(lease.asked, opened_));
    if (away && now - *away >= kReconnect) {
      return end(lease, Ending::unreachable, "its client disconnected");
    }
    return;
  }
  if (lease.state != State::held) return;
  if (lease.until && now >= *lease.until) {
    return let_go(lease, Ending::expired, "its time ran out");
  }
  if (lease.overdue && policy_.end_overdue) {  // the setting was switched on after that
    return let_go(lease, Ending::expired, "its maximum time has passed");
  }
  if (!clients_.has_heard(lease.id) && now - lease.granted >= kReconnect) {
    return let_go(lease, Ending::unreachable, "its client did not receive the grant");
  }
  if (lease.wish.binding != Binding::process) return;
  const auto gone = clients_.stream_gone_since(lease.id);
  if (gone && now - *gone >= kGrace) {
    let_go(lease, Ending::unreachable, "its connection closed");
  }
}

void Leases::on_gpus(const std::vector<PoolGpu>& all) {
  const bool first = !gpus_.complete();
  gpus_.know(all, loop_.now());
  reach_anew();
  for (const PoolGpu& gpu : all) refresh(gpu.info.id);
  if (first) open_if_ready();
  look_at_new();
}

// Looks at GPUs that were not there when the others were looked at.
void Leases::look_at_new() {
  auto gpus = gpus_.not_looked_at();
  if (standing_ != Standing::open || gpus.empty() || std::exchange(looking_at_new_, true)) return;
  observer_.look(suspects(false), std::move(gpus), true,
                 here_.guard([this, life = life_](const Sight& sight) {
                   if (life_ != life) return;
                   looking_at_new_ = false;
                   look_outside(sight);
                 }));
}

// Waiting claims may be able to use other GPUs than when they came.
void Leases::reach_anew() {
  if (!gpus_.fleet_changed()) return;
  for (const auto& [ticket, id] : by_ticket_) {
    const Lease* lease = journal_.find(id);
    if (lease) core_.reach(ticket, gpus_.eligible(lease->wish));
  }
}

void Leases::refresh(const DeviceId& gpu) {
  if (const auto slot = gpus_.slot_of(gpu)) {
    follow(core_.set(*slot, gpus_.condition(gpu), loop_.now()));
  }
}

std::vector<Suspect> Leases::suspects(bool draining_only) const {
  std::vector<Suspect> all;
  for (const auto& [ticket, id] : by_ticket_) {
    const Lease* lease = journal_.find(id);
    if (!lease || lease->gpus.empty() || lease->state == State::ended) continue;
    if (draining_only && lease->state != State::draining) continue;
    std::set<Process> processes(lease->processes.begin(), lease->processes.end());
    if (const auto known = alive_.find(id); known != alive_.end()) {
      processes.insert(known->second.begin(), known->second.end());
    }
    all.push_back(
        {id,
         lease->uid,
         lease->gpus,
         {processes.begin(), processes.end()},
         lease->wish.binding == Binding::detached || lease->wish.binding == Binding::job});
  }
  return all;
}

void Leases::on_processes() {
  if (standing_ != Standing::open || std::exchange(looking_, true)) return;
  observer_.look(
      suspects(false), gpus_.ids(), false, here_.guard([this, life = life_](const Sight& sight) {
        if (life_ != life) return;
        looking_ = false;
        for (const auto& [id, alive] : sight.alive) {
          if (const Lease* lease = journal_.find(id); lease && lease->state == State::held) {
            alive_[id] = lasting(sight, id);
          }
        }
        look_outside(sight);
      }));
}

void Leases::look_outside(const Sight& sight) {
  for (const auto& [gpu, list] : sight.on_gpus) {
    const auto newcomers = gpus_.see(gpu, sight, loop_.now());
    if (squatter_told_) {
      for (const Seen& one : newcomers) squatter_told_(gpu, one);
    }
    refresh(gpu);
  }
}

void Leases::drain() {
  if (standing_ != Standing::open || drain_looking_) return;
  auto draining = suspects(true);
  if (draining.empty()) return drain_timer_.reset();
  if (!drain_timer_) drained_since_ = loop_.now();
  drain_looking_ = true;
  drain_again_ = false;
  std::vector<DeviceId> gpus;
  for (const Suspect& suspect : draining) {
    gpus.insert(gpus.end(), suspect.gpus.begin(), suspect.gpus.end());
  }
  observer_.look(std::move(draining), std::move(gpus), true,
                 here_.guard([this, life = life_](const Sight& sight) {
                   if (life_ == life) on_drain_seen(sight);
                 }));
}

void Leases::on_drain_seen(const Sight& sight) {
  drain_looking_ = false;
  look_outside(sight);  // so that no GPU is granted next that is used otherwise
  for (const auto& [id, alive] : sight.alive) drain_one(id, sight);
  const Duration wait =
      drain_again_ ? Duration::zero() : until_next_look(loop_.now() - drained_since_);
  drain_timer_ = loop_.call_after(wait, [this] { drain(); });
}

void Leases::drain_one(const std::string& id, const Sight& sight) {
  const Lease* lease = journal_.find(id);
  if (!lease || lease->state != State::draining) return;
  alive_[id] = lasting(sight, id);
  auto left = left_of(*lease, sight, gpus_);
  if (auto beside = left || !left_beside_ ? std::nullopt : left_beside_(*lease)) {
    left = Left{*std::move(beside)};
  }
  const std::string reason = reason_of(*lease);
  if (!left) return end(*lease, lease->ending.value_or(Ending::released), "seen gone", reason);
  send_signals(*lease, sight);
  const std::string why = reason.empty() ? left->text : reason + std::string(kStill) + left->text;
  if (left->seen) {
    leftover_.insert(id);
  } else {
    leftover_.erase(id);
  }
  if (lease->why == why) return;
  Lease waits = *lease;
  waits.why = why;
  journal_.put_silently(waits);
}

void Leases::send_signals(const Lease& lease, const Sight& sight) {
  const auto found = signals_.extract(lease.id);
  if (found.empty()) return;
  for (const SignalPtr& signal : found.mapped()) {
    observer_.signal(
        remaining_processes(lease, sight), signal->number, signal->only_of,
        here_.guard([this, id = lease.id, signal](const std::vector<Unsignalled>& left) {
          answer_signal(id, signal, left, true);
        }));
  }
}

void Leases::answer_signal(const std::string& id, const SignalPtr& signal,
                           const std::vector<Unsignalled>& left, bool checked) {
  signal->deadline.reset();
  const auto waiting = std::exchange(signal->waiting, {});
  if (waiting.empty()) return;
  answer_when_kept(id, [waiting, left, checked](const Result<Lease>& lease) {
    for (const SignalAnswer& answer : waiting) {
      if (!lease) {
        answer(lease.error());
      } else {
        answer(Signalled{*lease, left, checked});
      }
    }
  });
}

// `checked`: the lease has no process left.
void Leases::drop_signals(const std::string& id, bool checked) {
  const auto found = signals_.extract(id);
  if (found.empty()) return;
  for (const SignalPtr& signal : found.mapped()) answer_signal(id, signal, {}, checked);
}

}  // namespace gpuyard::lease
