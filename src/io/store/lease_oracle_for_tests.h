// A lease storage in front of another. It remembers what was requested and what was reported as
// committed, and when, counted in steps of the disk. It thus knows what a crash at any moment may
// leave.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/lease/lease_storage.h"
#include "io/store/fake_disk_vfs_for_tests.h"

namespace gpuyard::store {

// All that is committed, in one order.
struct OracleState {
  std::map<std::string, lease::Lease> leases;
  std::map<DeviceId, lease::Cordon> cordons;
  lease::Ticket last_ticket = 0;
  lease::Fence last_fence = 0;

  explicit OracleState(const lease::SavedLeases& kept = {})
      : last_ticket(kept.last_ticket), last_fence(kept.last_fence) {
    for (const lease::Lease& lease : kept.leases) leases.emplace(lease.id, lease);
    for (const lease::Cordon& cordon : kept.cordons) cordons.emplace(cordon.gpu, cordon);
  }
  void take(const lease::LeaseTransaction& entry) {
    for (const lease::Lease& lease : entry.leases) leases.insert_or_assign(lease.id, lease);
    for (const DeviceId& gpu : entry.uncordoned) cordons.erase(gpu);
    for (const lease::Cordon& one : entry.cordoned) cordons.insert_or_assign(one.gpu, one);
    last_ticket = std::max(last_ticket, entry.last_ticket);
    last_fence = std::max(last_fence, entry.last_fence);
  }
  // Checks I1: the GPU that two leases have, or "".
  DeviceId find_shared_gpu() const {
    std::set<DeviceId> taken;
    for (const auto& [id, lease] : leases) {
      if (lease.state != lease::LeaseState::held && lease.state != lease::LeaseState::draining)
        continue;
      for (const DeviceId& gpu : lease.gpus) {
        if (!taken.insert(gpu).second) return gpu;
      }
    }
    return {};
  }
  friend bool operator==(const OracleState&, const OracleState&) = default;
};

class LeaseOracle final : public lease::LeaseStorage {
 public:
  // `archive` and `disk` outlive this. `before`: the states that a crash may have left of the life
  // before, until this one has reported what it read.
  LeaseOracle(lease::LeaseStorage& archive, const FakeDisk& disk, std::vector<OracleState> before)
      : archive_(archive), disk_(disk) {
    for (OracleState& state : before) requested_.push_back({std::move(state), 0});
  }

  bool load(std::vector<lease::Lease> committed,
            std::function<void(Result<lease::SavedLeases>)> loaded) override {
    const auto on_loaded = [this, loaded = std::move(loaded)](Result<lease::SavedLeases> kept) {
      if (kept) {
        sound_ = sound_ && allows(OracleState(*kept), disk_.steps().size());
        requested_.push_back({OracleState(*kept), disk_.steps().size()});
        acknowledged_.push_back({requested_.size() - 1, disk_.steps().size()});
      }
      loaded(std::move(kept));
    };
    return archive_.load(std::move(committed), on_loaded);
  }
  bool save(std::shared_ptr<const lease::LeaseTransaction> entry,
            std::function<void(const Result<void>&)> kept) override {
    const std::size_t number = requested_.size();
    OracleState state = requested_.empty() ? OracleState() : requested_.back().state;
    state.take(*entry);
    requested_.push_back({std::move(state), disk_.steps().size()});
    return archive_.save(std::move(entry),
                         [this, number, kept = std::move(kept)](const Result<void>& done) {
                           if (done) acknowledged_.push_back({number, disk_.steps().size()});
                           if (!done) ++failed_;
                           kept(done);
                         });
  }
  std::vector<std::string> notes() const override { return archive_.notes(); }
  // The leases that were reported as committed and have not ended.
  std::vector<lease::Lease> committed() const {
    std::vector<lease::Lease> all;
    if (acknowledged_.empty()) return all;
    for (const auto& [id, lease] : requested_[acknowledged_.back().number].state.leases) {
      if (lease.state != lease::LeaseState::ended) all.push_back(lease);
    }
    return all;
  }

  struct RequestedState {
    OracleState state;  // if this transaction is committed, and all before it
    std::size_t step;   // from when on it may be on the disk
  };
  struct Acknowledgement {
    std::size_t number;  // in `requested_`
    std::size_t step;    // from when on it must be
  };
  // The states that a crash before that step may leave: all of them are prefixes of what happened,
  // and the first is all that was reported as committed.
  std::pair<const RequestedState*, const RequestedState*> possible_states(std::size_t step) const {
    std::size_t first = 0;
    for (const Acknowledgement& told : acknowledged_) {
      if (told.step <= step) first = told.number;
    }
    std::size_t last = first;
    while (last < requested_.size() && requested_[last].step <= step) ++last;
    return {requested_.data() + first, requested_.data() + std::max(last, first + 1)};
  }
  std::vector<OracleState> states(std::size_t step) const {
    std::vector<OracleState> all;
    const auto [first, last] = possible_states(step);
    std::for_each(first, last, [&](const RequestedState& asked) { all.push_back(asked.state); });
    return all;
  }
  bool allows(const OracleState& state, std::size_t step) const {
    const auto [first, last] = possible_states(step);
    return std::any_of(first, last,
                       [&](const RequestedState& asked) { return asked.state == state; });
  }
  // Whether each load returned a possible state.
  bool is_sound() const { return sound_; }
  std::size_t failed() const { return failed_; }  // transactions

 private:
  lease::LeaseStorage& archive_;
  const FakeDisk& disk_;
  std::vector<RequestedState> requested_;
  std::vector<Acknowledgement> acknowledged_;
  bool sound_ = true;
  std::size_t failed_ = 0;
};

}  // namespace gpuyard::store
