// A fixture for leases: a clock that the test moves, a disk that may fail, and processes that come
// and go.
#pragma once

#include <sys/eventfd.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/manual_loop_for_tests.h"
#include "core/lease/lease_manager.h"

namespace gpuyard::lease {

// Commits its transactions one turn of the loop later.
class FakeDisk final : public LeaseStorage {
 public:
  explicit FakeDisk(Loop& loop) : loop_(loop) {}

  bool load(std::vector<Lease>, std::function<void(Result<SavedLeases>)> loaded) override {
    loop_.post([this, loaded] {
      if (fails) return loaded(*fails);
      SavedLeases kept;
      for (const auto& [id, lease] : leases) kept.leases.push_back(lease);
      for (const auto& [gpu, cordon] : cordons) kept.cordons.push_back(cordon);
      kept.last_ticket = last_ticket;
      kept.last_fence = last_fence;
      loaded(std::move(kept));
    });
    return true;
  }

  bool save(std::shared_ptr<const LeaseTransaction> all,
            std::function<void(const Result<void>&)> kept) override {
    loop_.post([this, all, kept] {
      if (stuck) return;
      if (fails) return kept(*fails);
      if (slow) {
        waiting.push_back([this, all, kept] {
          keep(*all);
          kept({});
        });
        return;
      }
      keep(*all);
      kept({});
    });
    return true;
  }
  // Answers everything that waits.
  void finish() {
    slow = false;
    for (const auto& work : std::exchange(waiting, {})) work();
  }
  std::vector<std::string> notes() const override { return {}; }

  void keep(const LeaseTransaction& entry) {
    for (const std::string& id : entry.removed) leases.erase(id);
    for (const Lease& lease : entry.leases) leases.insert_or_assign(lease.id, lease);
    for (const Cordon& cordon : entry.cordoned) cordons.insert_or_assign(cordon.gpu, cordon);
    for (const DeviceId& gpu : entry.uncordoned) cordons.erase(gpu);
    last_ticket = std::max(last_ticket, entry.last_ticket);
    last_fence = std::max(last_fence, entry.last_fence);
  }

  std::optional<Error> fails;
  bool stuck = false;  // never answers
  bool slow = false;   // answers at finish()
  std::vector<std::function<void()>> waiting;
  std::map<std::string, Lease> leases;
  std::map<DeviceId, Cordon> cordons;
  Ticket last_ticket = 0;
  Fence last_fence = 0;

 private:
  Loop& loop_;
};

// A machine full of processes, of which some use GPUs.
class FakeObserver final : public ProcessObserver {
 public:
  explicit FakeObserver(ManualLoop& loop) : loop_(loop) {}

  struct Running {
    ProcessIdentity identity;
    std::string lease;          // named in its environment
    std::set<DeviceId> gpus;    // used by it
    bool visible = true;        // if not, in another PID namespace
    bool by_container = false;  // only its container names the lease
    bool in_job = false;        // its control group is of a job or pod
    bool in_container = false;
  };

  ProcessKey start(std::uint32_t pid, std::uint32_t uid = 1000, std::uint32_t parent = 0) {
    Running one;
    one.identity.key = {pid, loop_.now()};
    one.identity.uid = uid;
    one.identity.parent = parent;
    one.identity.command = "python";
    one.identity.fd = std::make_shared<const UniqueFd>(::eventfd(0, EFD_CLOEXEC));
    running.insert_or_assign(pid, one);
    return one.identity.key;
  }

  void stop(std::uint32_t pid) {
    const auto fd = running.at(pid).identity.fd;
    running.erase(pid);
    loop_.make_readable(fd->get());
  }

  Caller caller(std::uint32_t pid) const {
    const Running& one = running.at(pid);
    return {one.identity.uid, one.identity.uid == 0, pid, nullptr};
  }

  void identify(std::uint32_t pid, std::function<void(Result<ProcessIdentity>)> found) override {
    loop_.post([this, pid, found] {
      if (slow) return found(Error{Errc::timed_out, "could not be found out in time"});
      const auto one = running.find(pid);
      if (one == running.end()) return found(Error{Errc::not_found, "no such process"});
      found(one->second.identity);
    });
  }

  void observe(std::vector<ObservedLease> suspects, std::vector<DeviceId> gpus, bool,
               std::function<void(Observation)> seen) override {
    ++observation_count;
    if (blind) return;
    loop_.post([this, suspects, gpus, seen] { seen(make_observation(suspects, gpus)); });
  }

  void signal(std::vector<ProcessKey> to, int number, std::optional<std::uint32_t> only_of,
              std::function<void(std::vector<SignalFailure>)> done) override {
    std::vector<SignalFailure> left;
    for (const ProcessKey& one : to) {
      const auto found = running.find(one.pid);
      const bool is_allowed =
          found != running.end() && (!only_of || found->second.identity.uid == *only_of);
      if (is_allowed && may_signal) {
        signals.emplace_back(one.pid, number);
      } else if (found != running.end()) {
        left.push_back({one, {Errc::denied, "it is another user's"}});
      }
    }
    loop_.post([done, left] { done(left); });
  }

  Observation make_observation(const std::vector<ObservedLease>& suspects,
                               const std::vector<DeviceId>& gpus) const {
    Observation observation;
    observation.taken_at = loop_.now();
    for (const ObservedLease& suspect : suspects) {
      auto& alive = observation.alive_by_lease[suspect.lease];
      for (const auto& [pid, one] : running) {
        if (!is_of(one, suspect)) continue;
        alive.push_back(one.identity.key);
        const bool known = std::ranges::count(suspect.processes, one.identity.key) > 0;
        if (one.by_container && !known) {
          observation.by_container[suspect.lease].push_back(one.identity.key);
        }
      }
    }
    for (const DeviceId& gpu : gpus) {
      observation.used_bytes[gpu] = used_bytes;
      if (unreadable.count(gpu) > 0) {
        observation.processes_by_gpu[gpu] = std::nullopt;
        continue;
      }
      auto& list = observation.processes_by_gpu[gpu].emplace();
      for (const auto& [pid, one] : running) {
        if (one.gpus.count(gpu) > 0) list.push_back(seen(one, gpu, suspects));
      }
    }
    return observation;
  }

  std::map<std::uint32_t, Running> running;
  std::size_t observation_count = 0;  // number of observations requested
  std::set<DeviceId> unreadable;      // GPUs whose list of processes cannot be read
  std::int64_t used_bytes = 0;
  bool slow = false;       // no process is identified in time
  bool may_signal = true;  // if not, the kernel refuses every signal
  bool blind = false;      // no observation is answered
  std::vector<std::pair<std::uint32_t, int>> signals;

 private:
  bool is_of(const Running& one, const ObservedLease& suspect) const {
    for (const ProcessKey& process : suspect.processes) {
      if (process == one.identity.key) return true;
    }
    if (one.lease == suspect.lease) return true;
    const auto parent = running.find(one.identity.parent);
    return parent != running.end() && is_of(parent->second, suspect);
  }

  ObservedProcess seen(const Running& one, const DeviceId& gpu,
                       const std::vector<ObservedLease>& suspects) const {
    ObservedProcess seen;
    seen.pid = one.identity.key.pid;
    if (!one.visible) return seen;
    seen.attribution = ObservedProcess::Attribution::outsider;
    seen.started = one.identity.key.started;
    seen.uid = one.identity.uid;
    seen.command = one.identity.command;
    seen.in_job = one.in_job;
    seen.in_container = one.in_container;
    for (const ObservedLease& suspect : suspects) {
      const bool on_its_gpu = std::count(suspect.gpus.begin(), suspect.gpus.end(), gpu) > 0;
      const bool users = suspect.whole_gpu || (suspect.whole_user && suspect.uid == seen.uid);
      if (!on_its_gpu || !(users || is_of(one, suspect))) continue;
      seen.attribution = ObservedProcess::Attribution::member;
      seen.lease = suspect.lease;
    }
    return seen;
  }

  ManualLoop& loop_;
};

// A daemon's leases over both. A test may kill it and start another over the same disk.
class LeaseFixture {
 public:
  explicit LeaseFixture(unsigned gpus, LeasePolicy its_policy = {})
      : policy(std::move(its_policy)) {
    for (unsigned i = 0; i < gpus; ++i) {
      PoolGpu gpu;
      gpu.info.id = gpu.info.uuid = "GPU-" + std::to_string(i);
      gpu.info.index = i;
      gpu.info.name = "NVIDIA H100";
      gpu.total_bytes = gpu.free_bytes = std::int64_t{80} << 30;
      fleet.push_back(gpu);
    }
    begin();
  }

  void begin(const std::string& boot = "boot-1") {
    leases.emplace(loop, observer, disk, policy, boot);
    leases->on_gpus(fleet);
    leases->start();
    loop.run_posted();
  }
  void kill() { leases.reset(); }

  // Claims, and runs everything that follows at once.
  Result<Lease> claim(std::uint32_t pid, const std::string& id, LeaseSpec spec = {}) {
    return result_of([&](const LeaseManager::OnLease& answer) {
      leases->claim(observer.caller(pid), id, spec, answer);
    });
  }
  Result<Lease> release(std::uint32_t pid, const std::string& id, ReleaseOptions how = {}) {
    return result_of([&](const LeaseManager::OnLease& answer) {
      leases->release(observer.caller(pid), id, how, answer);
    });
  }

  Result<SignalResult> signal(std::uint32_t pid, const std::string& id, int number) {
    std::optional<Result<SignalResult>> answer;
    leases->signal(observer.caller(pid), id, number,
                   [&](Result<SignalResult> result) { answer = std::move(result); });
    loop.run_posted();
    if (!answer) return Error{Errc::timed_out, "no answer"};
    return *std::move(answer);
  }

  template <class Ask>
  Result<Lease> result_of(Ask&& ask) {
    std::optional<Result<Lease>> answer;
    ask([&](Result<Lease> result) { answer = std::move(result); });
    loop.run_posted();
    if (!answer) return Error{Errc::timed_out, "no answer"};
    return *std::move(answer);
  }

  LeaseState state(const std::string& id) const {
    const Lease* lease = leases->find(id);
    return lease ? lease->state : LeaseState::ended;
  }

  ManualLoop loop;
  FakeDisk disk{loop};
  FakeObserver observer{loop};
  std::vector<PoolGpu> fleet;
  LeasePolicy policy;  // of the next daemon
  std::optional<LeaseManager> leases;
};

}  // namespace gpuyard::lease
