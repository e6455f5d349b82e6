// The jobs of Slurm, which hands out GPUs itself: each gets a lease of the GPUs that it has, so
// that what it uses is counted as its own, and what it leaves behind is seen.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/log.h"
#include "core/lease/lease_manager.h"

namespace gpuyard::lease {
void Leases::observe_only() {
  if (policy_.mode == Mode::grant || gpus_.observes_only()) return;
  gpus_.observe_only();
  log::info("leases: Slurm allocates the GPUs of this machine; gpuyard only observes them");
  end_waiting();
  for (const DeviceId& gpu : gpus_.ids()) refresh(gpu);
}

// Ended jobs are forgotten, because a job in the journal makes the next start observe only.
void Leases::stop_observing(const Done& done) {
  const auto refuse_to = [&](const Error& why) { loop_.post([done, why] { done(why); }); };
  if (auto why = closed_to_changes()) return refuse_to(*why);
  if (policy_.mode == Mode::observe) {
    return refuse_to({Errc::conflict,
                      "Slurm allocates the GPUs of this machine: the configuration has lease.mode "
                      "= \"observe\""});
  }
  for (const auto& [ticket, claim] : core_.live()) {
    const Lease& lease = *journal_.find(by_ticket_.at(ticket));
    if (lease.wish.binding != Binding::job) continue;
    return refuse_to({.code = Errc::conflict,
                      .message = fmt::format("lease {} of a Slurm job holds GPUs", lease.id),
                      .cause = "gpuyard can lease the GPUs again when the job has ended",
                      .hint = fmt::format(
                          "gpuyard lease release {} --force --reason \"the job has ended\"  # if "
                          "Slurm no longer runs it",
                          lease.id)});
  }
  if (gpus_.observes_only()) {
    gpus_.stop_observing();
    log::info("leases: gpuyard leases the GPUs of this machine again");
    for (const DeviceId& gpu : gpus_.ids()) refresh(gpu);
    look_at_new();
  }
  // The end of the last job must be on the disk first.
  journal_.after(here_.guard([this, done](const Result<void>& kept) {
    if (!kept) return done(kept);
    journal_.forget_jobs();
    journal_.after(done);
  }));
}

void Leases::end_waiting() {
  std::vector<std::string> waiting;
  for (const auto& [ticket, claim] : core_.waiting()) waiting.push_back(by_ticket_.at(ticket));
  for (const std::string& id : waiting) {
    end(*journal_.find(id), Ending::cancelled, "Slurm", observed()->text());
  }
}

std::optional<Error> Leases::observed(std::size_t gpus) const {
  if (!gpus_.observes_only()) return std::nullopt;
  return Error{Errc::conflict,
               "Slurm allocates the GPUs of this machine, and gpuyard only observes them", "",
               gpus > 0 ? fmt::format("srun --gres=gpu:{} COMMAND", gpus) : ""};
}

// Job numbers come again. The time makes each beginning another lease, the later one the greater.
std::string Leases::new_job_id(const std::string& name) const {
  constexpr auto kMake = [](const std::string& job, std::int64_t then) {
    return fmt::format("{}-{:011x}", job, then);
  };
  std::int64_t now = loop_.wall().time_since_epoch() / std::chrono::milliseconds(1);
  while (journal_.find(kMake(name, now)) != nullptr) ++now;
  return kMake(name, now);
}

void Leases::begin_job(const Caller& caller, const Job& job, const Answer& answer) {
  if (auto why = closed_to_claims()) return refuse(*why, answer);
  observe_only();
  GpuSet wanted;
  for (const DeviceId& gpu : job.gpus) {
    if (const auto slot = gpus_.slot_of(gpu)) wanted.set(*slot);
  }
  if (wanted.none()) return refuse({Errc::invalid, "a job without a GPU has no lease"}, answer);
  std::vector<std::string> over;  // whose end nobody told
  for (const auto& [ticket, claim] : core_.live()) {
    const Lease& lease = *journal_.find(by_ticket_.at(ticket));
    const bool same = job_of(lease) == job.name;
    if (!same && (claim.gpus & wanted).none()) continue;
    if (same && lease.state == State::held && claim.gpus == wanted && lease.uid == job.uid) {
      return answer_when_kept(lease.id, answer);
    }
    if (lease.wish.binding != Binding::job) {
      return refuse({Errc::conflict,
                     fmt::format("lease {} of UID {} has a GPU that Slurm allocated to another job",
                                 lease.id, lease.uid)},
                    answer);
    }
    over.push_back(lease.id);
  }
  for (const std::string& id : over) {
    const std::string why = fmt::format("its GPUs now belong to {}", job.name);
    if (journal_.find(id)->state == State::held) {
      let_go(*journal_.find(id), Ending::taken_over, caller.name(), why);
    }
    end(*journal_.find(id), Ending::taken_over, caller.name(), why);
  }
  const auto ticket = core_.adopt(person(job.uid), wanted, loop_.now());
  if (!ticket)
    return refuse({Errc::conflict, "one of the GPUs was leased to another user first"}, answer);
  Lease lease;
  lease.id = new_job_id(job.name);
  lease.uid = job.uid;
  lease.wish.binding = Binding::job;
  lease.wish.gpus = static_cast<unsigned>(wanted.count());
  lease.wish.among = gpus_.names(wanted);
  lease.wish.note = job.note;
  lease.ticket = *ticket;
  lease.boot_id = boot_id_;
  lease.asked = loop_.now();
  lease.asked_wall = loop_.wall();
  by_ticket_[lease.ticket] = lease.id;
  limits_.waits(lease.uid);
  journal_.put(lease, "begins " + job.name, caller.name());
  on_granted(*core_.find(*ticket));
  journal_.after([this, id = lease.id](const Result<void>&) { clients_.heard(id); });
  answer_when_kept(lease.id, answer);
}

void Leases::end_job(const Caller& caller, const std::string& name, const Answer& answer) {
  if (auto why = closed_to_changes()) return refuse(*why, answer);
  for (const auto& [ticket, id] : by_ticket_) {
    const Lease* const lease = journal_.find(id);
    if (lease && job_of(*lease) == name) return release(caller, std::string(id), {}, answer);
  }
  refuse({Errc::not_found, fmt::format("job {} has no lease on this machine", name)}, answer);
}

const Lease* Leases::find_job(std::string_view name) const {
  const auto& all = journal_.kept();
  const Lease* last = nullptr;
  const std::string begin = fmt::format("{}-", name);
  for (auto next = all.lower_bound(begin); next != all.end() && next->first.starts_with(begin);
       ++next) {
    if (job_of(next->second) == name) last = &next->second;
  }
  return last;
}

}  // namespace gpuyard::lease
