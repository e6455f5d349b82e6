// The daemon's own leases over processes that come, ask, use, release and die at random. Records
// which grants clients were notified of, and when.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/lease/lease_fixture_for_tests.h"
#include "io/store/fake_disk_for_tests.h"

namespace gpuyard::store {

class LeaseShell {
 public:
  static constexpr std::size_t kGpus = 6;

  // The state that outlives a killed daemon. After a power cut only the counts remain.
  struct Machine {
    std::map<std::uint32_t, lease::FakeObserver::Running> running;
    std::uint32_t last_pid = 1;
    std::size_t last_lease = 0;
    int boots = 1;
  };
  // A grant that a client was notified of.
  struct RecordedReply {
    std::string lease;
    lease::Fence fence;
    std::size_t step;
  };

  LeaseShell(Random& random, ManualLoop& loop, lease::LeaseStorage& archive, Machine& machine,
             std::function<std::size_t()> step)
      : random_(random),
        loop_(loop),
        machine_(machine),
        step_(std::move(step)),
        leases_(loop, ground_, archive, {}, "boot-" + std::to_string(machine.boots)) {
    ground_.running = machine.running;
    for (std::size_t i = 0; i < kGpus; ++i) {
      lease::PoolGpu gpu;
      gpu.info.id = gpu.info.uuid = name(i);
      gpu.info.index = static_cast<std::uint32_t>(i);
      fleet_.push_back(gpu);
    }
    leases_.on_gpus(fleet_);
    leases_.start();
  }
  ~LeaseShell() { machine_.running = ground_.running; }
  LeaseShell(const LeaseShell&) = delete;
  LeaseShell& operator=(const LeaseShell&) = delete;

  const std::vector<RecordedReply>& recorded() const { return recorded_; }
  bool can_grant() const { return !leases_.grant_error(); }

  // Makes one more thing happen.
  void next() {
    switch (below(random_, 10)) {
      case 0:
      case 1:
      case 2:
        claim(start());
        break;
      case 3:
        claim_detached();
        break;
      case 4:
      case 5:
        if (const auto pid = random_process()) ground_.stop(pid);
        break;
      case 6:
        release();
        break;
      case 7:
        use();
        break;
      case 8:
        cordon();
        break;
      default:
        loop_.advance(std::chrono::milliseconds(below(random_, 4000)));
        break;
    }
    loop_.run_posted();
  }

 private:
  static DeviceId name(std::size_t gpu) { return "GPU-" + std::to_string(gpu); }
  lease::LeaseManager::OnLease make_recorder() {
    return [this](const Result<lease::Lease>& lease) {
      if (lease && lease->state == lease::LeaseState::held) record(*lease);
    };
  }
  void record(const lease::Lease& lease) { recorded_.push_back({lease.id, lease.fence, step_()}); }
  std::uint32_t start() {
    ground_.start(++machine_.last_pid, static_cast<std::uint32_t>(1000 + below(random_, 3)));
    return machine_.last_pid;
  }
  std::uint32_t random_process() {
    if (ground_.running.empty()) return 0;
    return std::next(ground_.running.begin(),
                     static_cast<std::ptrdiff_t>(below(random_, ground_.running.size())))
        ->first;
  }
  std::string new_lease() { return "lease-" + std::to_string(++machine_.last_lease); }
  void ask(std::uint32_t pid, const lease::LeaseSpec& spec) {
    const std::string id = new_lease();
    watches_.push_back(leases_.subscribe(id, [this](const lease::Lease& lease) {
      if (lease.state == lease::LeaseState::held) record(lease);
    }));
    watches_.push_back(leases_.mark_present(id, lease::PresenceKind::poll));
    leases_.claim(ground_.caller(pid), id, spec, make_recorder());
  }
  void claim(std::uint32_t pid) {
    lease::LeaseSpec spec;
    spec.gpus = static_cast<unsigned>(1 + below(random_, 3));
    if (chance(random_, 0.2)) spec.wait_timeout = Duration::zero();
    if (chance(random_, 0.2)) spec.max_hold_time = std::chrono::seconds(1 + below(random_, 20));
    ask(pid, spec);
  }
  void claim_detached() {
    lease::LeaseSpec spec;
    spec.binding = lease::Binding::detached;
    spec.ttl = std::chrono::seconds(10 + below(random_, 10));
    ask(start(), spec);
  }
  void release() {
    for (const auto& [id, lease] : leases_.leases()) {
      if (lease.state == lease::LeaseState::ended || !chance(random_, 0.4)) continue;
      lease::ReleaseOptions how;
      how.force = chance(random_, 0.2);
      leases_.release({0, true}, id, how, make_recorder());
      return;
    }
  }
  // Some holders begin to use the GPUs of their leases.
  void use() {
    for (const auto& [id, lease] : leases_.leases()) {
      if (lease.state != lease::LeaseState::held || lease.processes.empty()) continue;
      const auto holder = ground_.running.find(lease.processes.front().pid);
      if (holder == ground_.running.end() || !chance(random_, 0.5)) continue;
      holder->second.lease = id;
      holder->second.gpus = {lease.gpus.begin(), lease.gpus.end()};
    }
    leases_.on_processes();
  }
  void cordon() {
    const DeviceId one = name(below(random_, kGpus));
    const lease::Caller root{0, true};
    if (chance(random_, 0.4)) {
      leases_.cordon(root, {one}, "because", [](const Result<void>&) {});
    } else {
      leases_.uncordon(root, {one}, [](const Result<void>&) {});
    }
  }

  Random& random_;
  ManualLoop& loop_;
  Machine& machine_;
  std::function<std::size_t()> step_;
  lease::FakeObserver ground_{loop_};
  std::vector<lease::PoolGpu> fleet_;
  std::vector<RecordedReply> recorded_;
  lease::LeaseManager leases_;
  std::vector<Subscription> watches_;
};

}  // namespace gpuyard::store
