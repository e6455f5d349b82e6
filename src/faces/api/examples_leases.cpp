// Leases as the API's description shows them: the busy H100 of examples.cpp is alice's, the idle
// one is not handed out, and somebody waits.
#include "api/examples.h"

namespace gpuyard::api {
namespace {

constexpr const char* kGranted = "2026-01-01T00:05:00.121Z";
constexpr const char* kUntil = "2026-01-01T02:05:00.121Z";
constexpr std::uint32_t kAlice = 1000;
constexpr std::uint32_t kBob = 1001;

protocol::Lease held() {
  protocol::Lease lease;
  lease.id = kLeaseExample;
  lease.state = lease::State::held;
  lease.binding = lease::Binding::run;
  lease.uid = kAlice;
  lease.user = "alice";
  lease.pid = 4711;
  lease.note = "python3 train.py --epochs 90";
  lease.fence = 17;
  lease.gpus = {{0, kBusyGpu, "0000:11:00.0", kGpuName, 97, 77'031'643'545}};
  lease.asked = kAskedAt;
  lease.granted = kGranted;
  lease.until = kUntil;
  protocol::LeaseUse use;
  use.held_s = 290.4;
  use.energy_mj = 174'322'000;
  use.mean_utilization_percent = 96.2;
  use.peak_memory_bytes = 77'031'643'545;
  use.idle_s = 0;
  lease.use = use;
  return lease;
}

protocol::Lease waiting() {
  protocol::Lease lease;
  lease.id = "eval-2026-01-01";
  lease.state = lease::State::waiting;
  lease.binding = lease::Binding::process;
  lease.uid = kBob;
  lease.user = "bob";
  lease.asked = "2026-01-01T00:07:30.502Z";
  lease.place = {1, "busy",
                 "it needs 1 of the 2 GPUs that fit, and others have: GPU 0 (alice). `gpuyard "
                 "leases` says until when",
                 7'040.5};
  return lease;
}

protocol::Withheld cordoned() {
  return {1, kIdleGpu, "cordoned", "cordoned by uid 0: its fan is replaced", "uid 0", kAskedAt};
}

}  // namespace

protocol::LeaseWish example_of(std::type_identity<protocol::LeaseWish>) {
  protocol::LeaseWish wish;
  wish.id = kLeaseExample;
  wish.gpus = 1;
  wish.min_free_bytes = 40'000'000'000;
  wish.max_time_s = 7200;
  wish.note = "python3 train.py --epochs 90";
  return wish;
}

protocol::LeaseAnswer example_of(std::type_identity<protocol::LeaseAnswer>) {
  return {1, true, held()};
}

protocol::Leases example_of(std::type_identity<protocol::Leases>) {
  return {1, true, {held()}};
}

protocol::Queue example_of(std::type_identity<protocol::Queue>) {
  protocol::Queue queue;
  queue.simulated = true;
  queue.pending_claimers = 1;
  queue.waiting = {waiting()};
  queue.squatters = {{5822, 1, kIdleGpu, kBob, "bob", "python3", 1'073'741'824, 61.5,
                      "gpuyard lease adopt --pid 5822"}};
  queue.withheld = {cordoned()};
  return queue;
}

protocol::RenewWish example_of(std::type_identity<protocol::RenewWish>) {
  return {3600, 17};
}

protocol::MemberWish example_of(std::type_identity<protocol::MemberWish>) {
  return {4712, 17};
}

protocol::AdoptWish example_of(std::type_identity<protocol::AdoptWish>) {
  return {5822, "evaluation"};
}

protocol::CordonWish example_of(std::type_identity<protocol::CordonWish>) {
  return {"its fan is replaced"};
}

protocol::Cordoned example_of(std::type_identity<protocol::Cordoned>) {
  return {1, true, {cordoned()}};
}

protocol::Load example_of(std::type_identity<protocol::Load>) {
  return {{{0, kGpuName, "NVIDIA", true}, {1, kGpuName, "NVIDIA", false}}, 1, 2};
}

}  // namespace gpuyard::api
