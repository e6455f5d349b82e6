#include "core/lease/claim_intake.h"

#include <utility>

#include <fmt/format.h>

#include "base/identifiers.h"
#include "core/lease/placement.h"

namespace gpuyard::lease {

void ClaimIntake::claim(const Caller& caller, std::string id, const LeaseSpec& spec,
                        const OnLease& on_lease) {
  if (id.empty()) id = new_id();
  const OnLease reply = [this, id, caller, on_lease](Result<Lease> lease) {
    const bool held = lease && lease->state == LeaseState::held;
    if (held && !caller.is_gone()) clients_.acknowledge_grant(id);
    on_lease(std::move(lease));
  };
  if (auto valid = check_spec(spec); !valid) return refuse(loop_, valid.error(), reply);
  if (store_.find_latest(id) || spec.binding == Binding::detached) {
    return enqueue_claim(caller, std::nullopt, id, spec, reply);
  }
  if (caller.pid == 0) {
    return refuse(
        loop_,
        {Errc::invalid,
         "a lease bound to a process needs the caller's process, which is known only on a Unix "
         "socket within one PID namespace; request a detached lease, which lasts for a fixed time"},
        reply);
  }
  holders_.identify(caller.pid, [this, caller, id, spec, reply](Result<ProcessIdentity> found) {
    if (found && caller.is_gone()) found = Error{Errc::not_found, "the caller has exited"};
    if (!found) return refuse(loop_, std::move(found).error().in("the caller"), reply);
    enqueue_claim(caller, *found, id, spec, reply);
  });
}

// All that is needed is known; the claim now enters the queue.
void ClaimIntake::enqueue_claim(const Caller& caller, const std::optional<ProcessIdentity>& holder,
                                const std::string& id, const LeaseSpec& spec,
                                const OnLease& on_lease) {
  if (auto why = readiness_.claim_error()) return refuse(loop_, *why, on_lease);
  if (const Lease* known = store_.find_latest(id))
    return answer_repeated_claim(caller, *known, spec, on_lease);
  if (const auto why = readiness_.observe_only_error(spec.gpus))
    return refuse(loop_, *why, on_lease);
  if (auto allowed = quotas_.check_claim_rate(caller, loop_.now()); !allowed) {
    return refuse(loop_, allowed.error(), on_lease);
  }
  const GpuRequest request = transitions_.gpu_request_of(caller.uid, spec);
  if (auto possible = scheduler_.check_satisfiable(request); !possible)
    return refuse(loop_, possible.error(), on_lease);
  Lease lease = transitions_.make_lease(id, caller.uid);
  lease.spec = spec;
  if (holder) lease.processes.push_back(holder->key);
  if (spec.wait_timeout == Duration::zero())
    return claim_immediately(holder, lease, request, on_lease);
  if (auto allowed = quotas_.check_queue_quota(caller, scheduler_.waiting_claims().size());
      !allowed) {
    return refuse(loop_, allowed.error(), on_lease);
  }
  transitions_.enqueue(lease, request, holder);
  store_.answer_when_committed(id, on_lease);
}

void ClaimIntake::claim_immediately(const std::optional<ProcessIdentity>& holder, Lease lease,
                                    const GpuRequest& request, const OnLease& on_lease) {
  if (const auto why = readiness_.grant_error()) return refuse(loop_, *why, on_lease);
  const auto ticket = scheduler_.try_claim(request, loop_.now());
  if (!ticket) {  // its end is not stored
    lease.state = LeaseState::ended;
    lease.end_reason = EndReason::none_free;
    lease.ended_wall = loop_.wall();
    loop_.post([on_lease, lease] { on_lease(lease); });
    return;
  }
  lease.ticket = *ticket;
  transitions_.grant_at_once(lease, holder);
  store_.answer_when_committed(lease.id, on_lease);
}

// Answers a repeated call with the state of its lease.
void ClaimIntake::answer_repeated_claim(const Caller& caller, const Lease& known,
                                        const LeaseSpec& spec, const OnLease& on_lease) {
  if (known.uid != caller.uid) {
    return refuse(loop_, {Errc::conflict, "this ID belongs to another user's lease"}, on_lease);
  }
  if (!(known.spec == spec)) {
    return refuse(
        loop_,
        {Errc::conflict, "this ID was used for a different request; a new claim needs a new ID"},
        on_lease);
  }
  store_.answer_when_committed(known.id, on_lease);
}

Result<Offer> ClaimIntake::offer(std::uint32_t uid, const LeaseSpec& spec) const {
  if (const auto why = readiness_.grant_error()) return *why;
  if (const auto why = readiness_.observe_only_error(spec.gpus))
    return Offer{.reason = why->text()};
  const GpuRequest request = transitions_.gpu_request_of(uid, spec);
  GpuRequest single_request = request;
  single_request.count = 1;
  const GpuSet any = scheduler_.available_gpus(single_request);
  Offer offer{gpus_.ids_of(any)};
  if (const GpuSet available = request.count == 1 ? any : scheduler_.available_gpus(request);
      available.any()) {
    offer.chosen =
        gpus_.ids_of(choose_placement(scheduler_.allocations().gpus(), available, request.count));
  } else if (const auto possible = scheduler_.check_satisfiable(request); !possible) {
    offer.reason = possible.error().text();
  } else if (quotas_.exceeds_gpu_limit(scheduler_, uid, request.count)) {
    offer.reason = quotas_.gpu_limit_text();
    offer.over_limit = true;
  } else {
    offer.reason = fmt::format("{} of {} matching GPUs {} free", offer.free.size(),
                               request.eligible.count(), offer.free.size() == 1 ? "is" : "are");
  }
  return offer;
}

}  // namespace gpuyard::lease
