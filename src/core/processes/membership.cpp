#include "core/processes/membership.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/try.h"

namespace gpuyard::processes {
namespace {

void merge(std::vector<bool>& all, const std::vector<bool>& more) {
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = all[i] || more[i];
}

}  // namespace

Membership::Membership(const std::vector<LeaseProcesses>& leases, const Evidence& evidence)
    : leases_(leases), evidence_(evidence), no_leases_(leases.size()) {
  for (std::size_t i = 0; i < leases.size(); ++i) {
    for (const ProcessKey& process : leases[i].known) {
      known_processes_.try_emplace(process, no_leases_).first->second[i] = true;
    }
  }
  resolve();
  resolve_containers();
  if (leases_of_containers_.empty()) return;
  leases_without_containers_ = std::exchange(leases_by_pid_, {});
  resolve();
}

void Membership::add_known(const ProcessKey& process, LeaseSet& all) const {
  const auto known = known_processes_.find(process);
  if (known != known_processes_.end()) merge(all, known->second);
}

bool Membership::is_same_owner(std::uint32_t uid, std::uint32_t other) const {
  return uid == other ||
         (evidence_.quota_owner && evidence_.quota_owner(uid) == evidence_.quota_owner(other));
}

// Returns nothing if the maker of the container's group is unknown.
std::optional<bool> Membership::can_belong_to(const Container& container,
                                              const LeaseProcesses& lease) const {
  if (!container.maker) return std::nullopt;
  return *container.maker == kRootUid || is_same_owner(*container.maker, lease.uid);
}

// Outside containers, the environment of another user's process is ignored, unless it is root's.
bool Membership::is_mark_valid(const ProcessTraits& traits, ProcessLocation location,
                               const LeaseProcesses& lease) const {
  if (traits.marked_lease.empty() || traits.marked_lease != lease.lease) return false;
  if (traits.one_user && is_same_owner(traits.uid, lease.uid)) return true;
  if (location == ProcessLocation::anywhere) return false;
  if (!traits.container) return traits.one_user && traits.uid == kRootUid;
  return can_belong_to(*traits.container, lease).value_or(false);
}

void Membership::add_marked(const ProcessTraits& traits, ProcessLocation location,
                            LeaseSet& all) const {
  for (std::size_t i = 0; i < leases_.size(); ++i) {
    if (is_mark_valid(traits, location, leases_[i])) all[i] = true;
  }
  if (!traits.container) return;
  const auto& containers = location == ProcessLocation::on_lease_gpu ? leases_named_by_containers_
                                                                     : leases_of_containers_;
  const auto named = containers.find(traits.container->group);
  if (named == containers.end()) return;
  for (std::size_t i = 0; i < leases_.size(); ++i) {
    if (named->second[i] && can_belong_to(*traits.container, leases_[i]).value_or(false)) {
      all[i] = true;
    }
  }
}

// Returns whether the process would or could belong to the lease if its environment named it.
bool Membership::can_be_marked(const ProcessTraits& traits, const LeaseProcesses& lease) const {
  ProcessTraits marked = traits;
  marked.marked_lease = lease.lease;
  return is_mark_valid(marked, ProcessLocation::on_lease_gpu, lease) ||
         (traits.container && !traits.container->maker);
}

// Returns whether the process names the lease, but membership depends on an unknown maker of its
// container; or whether it may name the lease, but its environment cannot be read now.
bool Membership::is_undecided(const ProcessTraits& traits, std::size_t lease_index) const {
  if (!traits.mark_known && can_be_marked(traits, leases_[lease_index])) return true;
  if (!traits.container || traits.container->maker) return false;
  if (traits.marked_lease == leases_[lease_index].lease) return true;
  const auto named = leases_named_by_containers_.find(traits.container->group);
  return named != leases_named_by_containers_.end() && named->second[lease_index];
}

const Membership::LeaseSet& Membership::find(const ByPid& all, std::uint32_t pid) const {
  const auto found = all.find(pid);
  return found == all.end() ? no_leases_ : found->second;
}

// A parent that is younger than the child did not start it: it was given the real parent's number.
Membership::LeaseSet Membership::leases_of_parent(std::uint32_t parent,
                                                  const ProcessKey& child) const {
  const ProcessRow* const row = evidence_.table ? evidence_.table->find(parent) : nullptr;
  return row != nullptr && row->process.started > child.started ? no_leases_ : leases_of(parent);
}

void Membership::resolve() {
  leases_by_pid_.clear();
  if (!evidence_.table) return;
  for (const std::uint32_t pid : evidence_.table->unreadable) {
    LeaseSet& all = leases_by_pid_.emplace(pid, no_leases_).first->second;
    for (auto known = known_processes_.lower_bound({pid, TimePoint::min()});
         known != known_processes_.end() && known->first.pid == pid; ++known) {
      merge(all, known->second);
    }
  }
  for (const ProcessRow& row : evidence_.table->rows) resolve_chain(row);
}

// Goes from the process up to the first that is resolved already, and down again.
void Membership::resolve_chain(const ProcessRow& lowest) {
  std::vector<const ProcessRow*> chain;
  for (const ProcessRow* one = &lowest; one != nullptr && chain.size() < kMaxParentDepth &&
                                        !leases_by_pid_.contains(one->process.pid);
       one = evidence_.table->find(one->parent)) {
    chain.push_back(one);
  }
  for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
    const ProcessKey& process = (*at)->process;
    LeaseSet all = leases_of_parent((*at)->parent, process);
    add_known(process, all);
    const auto traits = evidence_.traits.find(process.pid);
    if (traits != evidence_.traits.end())
      add_marked(traits->second, ProcessLocation::anywhere, all);
    leases_by_pid_.insert_or_assign(process.pid, std::move(all));
  }
}

void Membership::resolve_containers() {
  for (const auto& [pid, traits] : evidence_.traits) {
    if (!traits.is_container_init) continue;
    const Group& group = traits.container->group;
    const LeaseSet& own = leases_of(pid);
    LeaseSet& named = leases_named_by_containers_.try_emplace(group, no_leases_).first->second;
    merge(named, own);
    for (std::size_t i = 0; i < leases_.size(); ++i) {
      if (is_mark_valid(traits, ProcessLocation::on_lease_gpu, leases_[i]) ||
          is_undecided(traits, i)) {
        named[i] = true;
      }
    }
    if (std::ranges::find(own, true) == own.end()) continue;
    merge(leases_of_containers_.try_emplace(group, no_leases_).first->second, own);
  }
}

std::vector<ProcessKey> Membership::live_processes(std::size_t lease_index) const {
  const std::vector<ProcessKey>& known = leases_[lease_index].known;
  if (!evidence_.table) return known;
  const ProcessTable& table = *evidence_.table;
  std::vector<ProcessKey> alive;
  for (const ProcessRow& row : table.rows) {
    if (!row.ended && leases_of(row.process.pid)[lease_index]) alive.push_back(row.process);
  }
  std::ranges::copy_if(known, std::back_inserter(alive), [&](const ProcessKey& process) {
    return table.unreadable.contains(process.pid);
  });
  return alive;
}

std::vector<ProcessKey> Membership::live_by_container(std::size_t lease_index) const {
  if (leases_of_containers_.empty() || !evidence_.table) return {};
  std::vector<ProcessKey> some;
  for (const ProcessRow& row : evidence_.table->rows) {
    const std::uint32_t pid = row.process.pid;
    const bool its_own = !row.ended && leases_of(pid)[lease_index];
    if (its_own && !find(leases_without_containers_, pid)[lease_index]) some.push_back(row.process);
  }
  return some;
}

std::optional<bool> Membership::contains(std::size_t lease_index,
                                         const Result<GpuUser>& user) const {
  if (!user) return std::nullopt;
  const LeaseProcesses& lease = leases_[lease_index];
  if (lease.whole_gpu) return true;
  if (lease.whole_user && is_same_owner(user->traits.uid, lease.uid)) return true;
  LeaseSet all = no_leases_;
  add_marked(user->traits, ProcessLocation::on_lease_gpu, all);
  if (evidence_.same_pids) {
    add_known(user->process, all);
    merge(all, leases_of_parent(user->parent, user->process));
  }
  if (all[lease_index]) return true;
  if (!evidence_.same_pids || !evidence_.table) return std::nullopt;
  const ProcessRow* const row = evidence_.table->find(user->process.pid);
  if (row != nullptr && row->process == user->process && leases_of(row->process.pid)[lease_index])
    return true;
  return is_undecided(user->traits, lease_index) ? std::nullopt : std::optional(false);
}

GpuUser gpu_user_of(ProcessView view, const MakerLookup& maker_of) {
  const ProcessUids& uids = view.uids;
  ProcessTraits traits{.uid = uids.effective,
                       .one_user = uids.real == uids.effective && uids.saved == uids.effective};
  if (const auto group = container_group_of(view.cgroup)) {
    traits.container = Container{*group, maker_of(*group)};
  }
  traits.is_container_init = traits.container && view.is_namespace_init;
  const CgroupInfo groups = cgroup_info_of(view.cgroup, maker_of);
  return {view.process,      view.parent,    std::move(view.command),
          std::move(traits), view.in_kernel, groups.pod || groups.slurm_job};
}

Result<GpuUser> read_gpu_user(const std::string& proc_root, std::uint32_t pid,
                              const MakerLookup& maker_of) {
  auto view = GPUYARD_TRY(view_process(proc_root, pid));
  return gpu_user_of(std::move(view), maker_of);
}

}  // namespace gpuyard::processes
