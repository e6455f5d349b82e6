// A scheduler with some GPUs and a clock, for tests: one short call for each event.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/lease/scheduler.h"

namespace gpuyard::lease {

inline constexpr Duration kMinute = std::chrono::minutes(1);

inline GpuSet slots(std::initializer_list<Slot> some) {
  GpuSet set;
  for (const Slot slot : some) set.set(slot);
  return set;
}

inline Gpu gpu_named(std::string key) {
  Gpu gpu;
  gpu.key = std::move(key);
  return gpu;
}

struct SchedulerFixture {
  Scheduler scheduler;
  TimePoint now{};
  std::vector<Ticket> granted;  // by all events so far, in order

  explicit SchedulerFixture(unsigned gpus, Fairness fairness = {}) : scheduler(fairness) {
    for (unsigned i = 0; i < gpus; ++i) (void)*scheduler.add(gpu_named("GPU-" + std::to_string(i)));
  }

  GpuRequest want(unsigned count, std::optional<Duration> longest = {}) const {
    GpuRequest request;
    request.owner = 1000;
    request.count = count;
    request.eligible = scheduler.allocations().known();
    request.max_hold_time = longest;
    return request;
  }
  GpuRequest of_user(std::uint32_t owner, unsigned count) const {
    GpuRequest request = want(count);
    request.owner = owner;
    return request;
  }
  GpuRequest only(const GpuSet& eligible, unsigned count = 1) const {
    GpuRequest request = want(count);
    request.eligible = eligible;
    return request;
  }

  Ticket claim(const GpuRequest& request) {
    Effects effects;
    const Ticket ticket = scheduler.claim(request, now, effects);
    note(effects);
    return ticket;
  }
  Ticket claim(unsigned count, std::optional<Duration> longest = {}) {
    return claim(want(count, longest));
  }
  std::optional<Ticket> try_claim(unsigned count) { return scheduler.try_claim(want(count), now); }
  Effects release(Ticket ticket) { return note(scheduler.release(ticket, now)); }
  Effects freed(Ticket ticket) { return note(scheduler.finish_drain(ticket, now)); }
  Effects cancel(Ticket ticket) { return note(scheduler.cancel(ticket, now)); }
  Effects pass(Duration time) {
    now += time;
    return note(scheduler.advance(now));
  }
  Effects set(Slot slot, const GpuAvailability& condition) {
    return note(scheduler.set_availability(slot, condition, now));
  }
  Effects in_service(Slot slot, bool yes) {
    GpuAvailability condition = scheduler.allocations().gpus()[slot].availability;
    condition.in_service = yes;
    return set(slot, condition);
  }
  Effects squatted(Slot slot, bool yes) {
    GpuAvailability condition = scheduler.allocations().gpus()[slot].availability;
    condition.in_unleased_use = yes;
    return set(slot, condition);
  }
  Effects free_bytes(Slot slot, std::optional<std::int64_t> bytes) {
    GpuAvailability condition = scheduler.allocations().gpus()[slot].availability;
    condition.free_bytes = bytes;
    return set(slot, condition);
  }

  bool held(Ticket ticket) const {
    const Claim* claim = scheduler.find(ticket);
    return claim != nullptr && claim->stage == Claim::Stage::held;
  }
  bool waits(Ticket ticket) const { return scheduler.waiting_claims().count(ticket) > 0; }
  GpuSet gpus(Ticket ticket) const { return scheduler.find(ticket)->gpus; }
  QueuePosition queue_position(Ticket ticket) const {
    for (const QueuePosition& one : scheduler.queue_positions(now)) {
      if (one.ticket == ticket) return one;
    }
    return {};
  }

 private:
  Effects note(Effects effects) {
    granted.insert(granted.end(), effects.granted.begin(), effects.granted.end());
    return effects;
  }
};

}  // namespace gpuyard::lease
