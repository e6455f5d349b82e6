// A random history of leases: clients claim, release and go away, and the scheduler decides. Makes
// the transaction of each event, and knows nothing of how it is committed.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/lease/lease_storage.h"
#include "core/lease/scheduler.h"
#include "io/store/fake_disk_for_tests.h"

namespace gpuyard::store {

class LeaseHistory {
 public:
  static constexpr std::size_t kGpus = 6;

  // Goes on from what was committed.
  LeaseHistory(Random& random, const lease::SavedLeases& kept, TimePoint now, WallTime wall)
      : random_(random), now_(now), wall_(wall) {
    core_.close();
    for (std::size_t i = 0; i < kGpus; ++i) static_cast<void>(core_.add({gpu(i)}).ok());
    for (const lease::Lease& lease : kept.leases) restore(lease);
    for (const lease::Cordon& cordon : kept.cordons) cordoned_.insert(cordon.gpu);
    core_.restore_counters(kept.last_ticket, kept.last_fence);
    follow(core_.open(now));
  }

  // Makes one more thing happen. A transaction without leases and cordons means that nothing did.
  lease::LeaseTransaction next() {
    now_ += std::chrono::milliseconds(below(random_, 5000));
    switch (below(random_, 10)) {
      case 0:
      case 1:
      case 2:
        claim();
        break;
      case 3:
        each_in(lease::LeaseState::waiting, [&](lease::Lease& lease) {
          end(lease, lease::EndReason::cancelled);
          follow(core_.cancel(lease.ticket, now_));
        });
        break;
      case 4:
        cordon();
        break;
      case 5:
        each_in(lease::LeaseState::held, [&](lease::Lease& lease) {
          lease.expires_at = now_ + std::chrono::minutes(1);
          put(lease);
        });
        break;
      case 6:
      case 7:
        each_in(lease::LeaseState::held, [&](lease::Lease& lease) {
          lease.state = lease::LeaseState::draining;
          lease.end_reason = lease::EndReason::released;
          lease.drain_started_wall = wall_;
          put(lease);
          follow(core_.release(lease.ticket, now_));
        });
        break;
      default:
        each_in(lease::LeaseState::draining, [&](lease::Lease& lease) {
          end(lease, lease::EndReason::released);
          follow(core_.finish_drain(lease.ticket, now_));
        });
        break;
    }
    entry_.last_ticket = core_.last_ticket();
    entry_.last_fence = core_.last_fence();
    return std::exchange(entry_, {});
  }

 private:
  static DeviceId gpu(std::size_t number) {
    return "GPU-6b1a3f52-0000-4000-8000-00000000000" + std::to_string(number);
  }
  void end(lease::Lease& lease, lease::EndReason why) {
    lease.state = lease::LeaseState::ended;
    lease.end_reason = why;
    lease.ended_wall = wall_;
    put(lease);
  }
  void put(const lease::Lease& lease) {
    std::erase_if(entry_.leases, [&](const lease::Lease& other) { return other.id == lease.id; });
    entry_.leases.push_back(lease);
  }
  template <class Change>
  void each_in(lease::LeaseState state, Change&& change) {
    std::vector<lease::Lease*> candidates;
    for (auto& [ticket, lease] : leases_) {
      if (lease.state == state) candidates.push_back(&lease);
    }
    if (!candidates.empty()) change(*candidates[below(random_, candidates.size())]);
  }
  void claim() {
    lease::Lease lease;
    lease.uid = static_cast<std::uint32_t>(1000 + below(random_, 3));
    lease.spec.gpus = static_cast<unsigned>(1 + below(random_, 3));
    lease.spec.note = std::string(below(random_, 400), 'n');
    lease.processes = {{static_cast<std::uint32_t>(below(random_, 4'000'000)), now_}};
    lease.boot_id = "b";
    lease.requested_at = now_;
    lease.requested_wall = wall_;
    lease::Effects effects;
    lease.ticket = core_.claim(terms(lease), now_, effects);
    lease.id = "lease-" + std::to_string(lease.ticket) + "-" + std::to_string(random_());
    put(leases_[lease.ticket] = lease);
    follow(effects);
  }
  lease::GpuRequest terms(const lease::Lease& lease) const {
    return {lease.uid, lease.spec.gpus, core_.allocations().known(), 0, lease.spec.max_hold_time};
  }
  void cordon() {
    const DeviceId one = gpu(below(random_, kGpus));
    const bool on = cordoned_.insert(one).second;
    if (on) {
      entry_.cordoned.push_back({one, "uid 0", "because", wall_});
    } else {
      cordoned_.erase(one);
      entry_.uncordoned.push_back(one);
    }
  }
  void follow(const lease::Effects& effects) {
    for (const lease::Ticket ticket : effects.granted) {
      const lease::Claim& claim = *core_.find(ticket);
      lease::Lease& lease = leases_.at(ticket);
      lease.state = lease::LeaseState::held;
      lease.fence = claim.fence;
      lease.granted_at = claim.granted_at;
      lease.granted_wall = wall_;
      lease::for_each_slot(claim.gpus, [&](lease::Slot slot) {
        lease.gpus.push_back(core_.allocations().gpus()[slot].key);
      });
      put(lease);
    }
    for (const lease::Ticket ticket : effects.overtaken) {
      leases_.at(ticket).overtakes = core_.find(ticket)->overtakes;
      put(leases_.at(ticket));
    }
  }
  void restore(const lease::Lease& lease) {
    if (lease.state == lease::LeaseState::ended) return;
    leases_[lease.ticket] = lease;
    lease::Claim claim;
    claim.ticket = lease.ticket;
    claim.request = terms(lease);
    claim.fence = lease.fence;
    claim.granted_at = lease.granted_at;
    claim.overtakes = lease.overtakes;
    if (lease.state == lease::LeaseState::held) claim.stage = lease::Claim::Stage::held;
    if (lease.state == lease::LeaseState::draining) claim.stage = lease::Claim::Stage::draining;
    for (lease::Slot slot = 0; slot < kGpus; ++slot) {
      if (std::ranges::count(lease.gpus, gpu(slot)) > 0) claim.gpus.set(slot);
    }
    core_.restore(claim);
  }

  Random& random_;
  TimePoint now_;
  WallTime wall_;
  lease::Scheduler core_{lease::Fairness{false, 0, true}};
  std::map<lease::Ticket, lease::Lease> leases_;
  std::set<DeviceId> cordoned_;
  lease::LeaseTransaction entry_;
};

}  // namespace gpuyard::store
