#include "core/lease/external_jobs.h"

#include <chrono>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"

namespace gpuyard::lease {

void ExternalJobs::accept_report(Allocator allocator) {
  gpus_.record_report();
  observe_only(allocator);
}

void ExternalJobs::observe_only(Allocator allocator) {
  if (policy_.mode == GrantMode::grant || gpus_.allocator() == allocator) return;
  const bool observed_before = gpus_.allocator().has_value();
  gpus_.observe_only(allocator);
  if (!observed_before) {
    log::info("leases: {} allocates the GPUs of this machine; gpuyard only observes them",
              words_of(allocator).name);
    cancel_waiting();
  }
  for (const DeviceId& gpu : gpus_.ids()) transitions_.refresh(gpu);
}

// Ended jobs are pruned, because a stored job makes the next start observe only.
void ExternalJobs::stop_observing(const LeaseStore::OnDone& on_done) {
  const auto refuse_to = [&](const Error& why) { loop_.post([on_done, why] { on_done(why); }); };
  if (auto why = readiness_.change_error()) return refuse_to(*why);
  if (policy_.mode == GrantMode::observe) {
    return refuse_to(
        {Errc::conflict, fmt::format("{} allocates the GPUs of this machine: the configuration has "
                                     "lease.mode = \"observe\"",
                                     words_of(*gpus_.allocator()).name)});
  }
  for (const auto& [ticket, claim] : scheduler_.allocations().claims()) {
    const Lease& lease = *live_.find(ticket);
    if (lease.spec.binding != Binding::job) continue;
    const AllocatorWords words = words_of(allocator_of(lease));
    return refuse_to(
        {.code = Errc::conflict,
         .message = fmt::format("lease {} of a {} holds GPUs", lease.id, words.own_job),
         .cause = fmt::format("gpuyard can lease the GPUs again when the {} has ended", words.job),
         .hint = fmt::format("gpuyard lease release {} --force --reason \"the {} has ended\"  # if "
                             "{} no longer runs it",
                             lease.id, words.job, words.name)});
  }
  if (gpus_.allocator()) {
    gpus_.stop_observing();
    log::info("leases: gpuyard leases the GPUs of this machine again");
    for (const DeviceId& gpu : gpus_.ids()) transitions_.refresh(gpu);
    updater_.observe_new_gpus();
  }
  // The end of the last job must be on the disk first.
  store_.when_committed(lifetime_.guard([this, on_done](const Result<void>& committed) {
    if (!committed) return on_done(committed);
    store_.prune_ended_jobs();
    store_.when_committed(on_done);
  }));
}

void ExternalJobs::cancel_waiting() {
  std::vector<std::string> waiting;
  for (const auto& [ticket, claim] : scheduler_.waiting_claims())
    waiting.push_back(live_.ids_by_ticket().at(ticket));
  for (const std::string& id : waiting) {
    transitions_.end(*store_.find_latest(id), EndReason::cancelled,
                     readiness_.observe_only_error()->text());
  }
}

// Names are reused, as Slurm reuses job numbers. The time makes each beginning another lease, the
// later one the greater.
std::string ExternalJobs::new_job_id(const std::string& name) const {
  const auto make_id = [prefix = job_id_prefix(name)](std::int64_t millis) {
    return fmt::format("{}{:011x}", prefix, millis);
  };
  std::int64_t now = loop_.wall().time_since_epoch() / std::chrono::milliseconds(1);
  while (store_.find_latest(make_id(now)) != nullptr) ++now;
  return make_id(now);
}

void ExternalJobs::begin(const ExternalJob& job, const OnLease& on_lease) {
  if (auto why = readiness_.claim_error()) return refuse(loop_, *why, on_lease);
  accept_report(job.allocator);
  const AllocatorWords words = words_of(job.allocator);
  GpuSet wanted;
  for (const DeviceId& gpu : job.gpus) {
    if (const auto slot = gpus_.slot_of(gpu)) wanted.set(*slot);
  }
  if (wanted.none())
    return refuse(loop_, {Errc::invalid, fmt::format("a {} without a GPU has no lease", words.job)},
                  on_lease);
  std::vector<std::string> superseded;  // whose end was not reported
  for (const auto& [ticket, claim] : scheduler_.allocations().claims()) {
    const Lease& lease = *live_.find(ticket);
    const bool same = job_of(lease) == job.name;
    if (!same && (claim.gpus & wanted).none()) continue;
    if (same && lease.state == LeaseState::held && claim.gpus == wanted && lease.uid == job.uid) {
      return store_.answer_when_committed(lease.id, on_lease);
    }
    if (lease.spec.binding != Binding::job) {
      return refuse(loop_,
                    {Errc::conflict,
                     fmt::format("lease {} of UID {} has a GPU that {} allocated to another {}",
                                 lease.id, lease.uid, words.name, words.job)},
                    on_lease);
    }
    superseded.push_back(lease.id);
  }
  for (const std::string& id : superseded) {
    const std::string detail = fmt::format("its GPUs now belong to {}", job.name);
    if (store_.find_latest(id)->state == LeaseState::held) {
      transitions_.begin_drain(*store_.find_latest(id), EndReason::taken_over, detail);
    }
    transitions_.end(*store_.find_latest(id), EndReason::taken_over, detail);
  }
  const auto ticket = scheduler_.adopt(quotas_.quota_owner(job.uid), wanted, loop_.now());
  if (!ticket)
    return refuse(loop_, {Errc::conflict, "one of the GPUs was leased to another user first"},
                  on_lease);
  Lease lease = transitions_.make_lease(new_job_id(job.name), job.uid);
  lease.spec.binding = Binding::job;
  lease.spec.gpus = static_cast<unsigned>(wanted.count());
  lease.spec.allowed_gpus = gpus_.ids_of(wanted);
  lease.spec.note = job.note;
  if (job.allocator == Allocator::kubernetes) lease.pod = job.name;
  lease.ticket = *ticket;
  transitions_.grant_at_once(lease, {});
  store_.when_committed(
      [this, id = lease.id](const Result<void>&) { clients_.acknowledge_grant(id); });
  store_.answer_when_committed(lease.id, on_lease);
}

}  // namespace gpuyard::lease
