#include "core/processes/membership.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gpuyard::processes {
namespace {

void join(std::vector<bool>& all, const std::vector<bool>& more) {
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = all[i] || more[i];
}

}  // namespace

Membership::Membership(const std::vector<Lessee>& lessees, const Evidence& evidence)
    : lessees_(lessees), evidence_(evidence), none_(lessees.size()) {
  for (std::size_t i = 0; i < lessees.size(); ++i) {
    for (const ProcessKey& process : lessees[i].known) {
      known_.try_emplace(process, none_).first->second[i] = true;
    }
  }
  settle();
  settle_containers();
  if (of_containers_.empty()) return;
  without_containers_ = std::exchange(own_, {});
  settle();
}

void Membership::add_known(const ProcessKey& process, Lessees& all) const {
  const auto known = known_.find(process);
  if (known != known_.end()) join(all, known->second);
}

bool Membership::same_person(std::uint32_t uid, std::uint32_t other) const {
  return uid == other || (evidence_.person && evidence_.person(uid) == evidence_.person(other));
}

// Returns nothing if the maker of the container's group is unknown.
std::optional<bool> Membership::may_be_of(const Container& container, const Lessee& lessee) const {
  if (!container.maker) return std::nullopt;
  return *container.maker == kRoot || same_person(*container.maker, lessee.uid);
}

// Outside containers, the environment of another user's process is ignored, unless it is root's.
bool Membership::mark_counts(const Traces& traces, Where where, const Lessee& lessee) const {
  if (traces.marked.empty() || traces.marked != lessee.lease) return false;
  if (traces.one_user && same_person(traces.uid, lessee.uid)) return true;
  if (where == Where::anywhere) return false;
  if (!traces.container) return traces.one_user && traces.uid == kRoot;
  return may_be_of(*traces.container, lessee).value_or(false);
}

void Membership::add_marked(const Traces& traces, Where where, Lessees& all) const {
  for (std::size_t i = 0; i < lessees_.size(); ++i) {
    if (mark_counts(traces, where, lessees_[i])) all[i] = true;
  }
  if (!traces.container) return;
  const auto& containers = where == Where::on_its_gpu ? named_by_containers_ : of_containers_;
  const auto named = containers.find(traces.container->group);
  if (named == containers.end()) return;
  for (std::size_t i = 0; i < lessees_.size(); ++i) {
    if (named->second[i] && may_be_of(*traces.container, lessees_[i]).value_or(false)) {
      all[i] = true;
    }
  }
}

// Returns whether the process would or could belong to the lease if its environment named it.
bool Membership::may_be_marked(const Traces& traces, const Lessee& lessee) const {
  Traces marked = traces;
  marked.marked = lessee.lease;
  return mark_counts(marked, Where::on_its_gpu, lessee) ||
         (traces.container && !traces.container->maker);
}

// Returns whether the process names the lease, but membership depends on an unknown maker of its
// container; or whether it may name the lease, but its environment cannot be read now.
bool Membership::is_undecided(const Traces& traces, std::size_t lessee) const {
  if (!traces.mark_known && may_be_marked(traces, lessees_[lessee])) return true;
  if (!traces.container || traces.container->maker) return false;
  if (traces.marked == lessees_[lessee].lease) return true;
  const auto named = named_by_containers_.find(traces.container->group);
  return named != named_by_containers_.end() && named->second[lessee];
}

const Membership::Lessees& Membership::find(const ByPid& all, std::uint32_t pid) const {
  const auto found = all.find(pid);
  return found == all.end() ? none_ : found->second;
}

// A parent that is younger than the child did not start it: it was given the real parent's number.
Membership::Lessees Membership::of_parent(std::uint32_t parent, const ProcessKey& child) const {
  const ProcessRow* const row = evidence_.table ? evidence_.table->find(parent) : nullptr;
  return row != nullptr && row->process.started > child.started ? none_ : of(parent);
}

void Membership::settle() {
  own_.clear();
  if (!evidence_.table) return;
  for (const std::uint32_t pid : evidence_.table->unreadable) {
    Lessees& all = own_.emplace(pid, none_).first->second;
    for (auto known = known_.lower_bound({pid, TimePoint::min()});
         known != known_.end() && known->first.pid == pid; ++known) {
      join(all, known->second);
    }
  }
  for (const ProcessRow& row : evidence_.table->rows) settle_chain(row);
}

// Goes from the process up to the first that is settled already, and down again.
void Membership::settle_chain(const ProcessRow& lowest) {
  std::vector<const ProcessRow*> chain;
  for (const ProcessRow* one = &lowest;
       one != nullptr && chain.size() < kDeepest && !own_.contains(one->process.pid);
       one = evidence_.table->find(one->parent)) {
    chain.push_back(one);
  }
  for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
    const ProcessKey& process = (*at)->process;
    Lessees all = of_parent((*at)->parent, process);
    add_known(process, all);
    const auto traces = evidence_.traces.find(process.pid);
    if (traces != evidence_.traces.end()) add_marked(traces->second, Where::anywhere, all);
    own_.insert_or_assign(process.pid, std::move(all));
  }
}

void Membership::settle_containers() {
  for (const auto& [pid, traces] : evidence_.traces) {
    if (!traces.leads_container) continue;
    const Group& group = traces.container->group;
    const Lessees& own = of(pid);
    Lessees& named = named_by_containers_.try_emplace(group, none_).first->second;
    join(named, own);
    for (std::size_t i = 0; i < lessees_.size(); ++i) {
      if (mark_counts(traces, Where::on_its_gpu, lessees_[i]) || is_undecided(traces, i)) {
        named[i] = true;
      }
    }
    if (std::ranges::find(own, true) == own.end()) continue;
    join(of_containers_.try_emplace(group, none_).first->second, own);
  }
}

std::vector<ProcessKey> Membership::alive(std::size_t lessee) const {
  const std::vector<ProcessKey>& known = lessees_[lessee].known;
  if (!evidence_.table) return known;
  const ProcessTable& table = *evidence_.table;
  std::vector<ProcessKey> alive;
  for (const ProcessRow& row : table.rows) {
    if (!row.ended && of(row.process.pid)[lessee]) alive.push_back(row.process);
  }
  std::ranges::copy_if(known, std::back_inserter(alive), [&](const ProcessKey& process) {
    return table.unreadable.contains(process.pid);
  });
  return alive;
}

std::vector<ProcessKey> Membership::alive_by_container(std::size_t lessee) const {
  if (of_containers_.empty() || !evidence_.table) return {};
  std::vector<ProcessKey> some;
  for (const ProcessRow& row : evidence_.table->rows) {
    const std::uint32_t pid = row.process.pid;
    const bool its_own = !row.ended && of(pid)[lessee];
    if (its_own && !find(without_containers_, pid)[lessee]) some.push_back(row.process);
  }
  return some;
}

std::optional<bool> Membership::has(std::size_t lessee, const Result<GpuUser>& user) const {
  if (!user) return std::nullopt;
  const Lessee& whose = lessees_[lessee];
  if (whose.whole_user && same_person(user->traces.uid, whose.uid)) return true;
  Lessees all = none_;
  add_marked(user->traces, Where::on_its_gpu, all);
  if (evidence_.same_numbers) {
    add_known(user->process, all);
    join(all, of_parent(user->parent, user->process));
  }
  if (all[lessee]) return true;
  if (!evidence_.same_numbers || !evidence_.table) return std::nullopt;
  const ProcessRow* const row = evidence_.table->find(user->process.pid);
  if (row != nullptr && row->process == user->process && of(row->process.pid)[lessee]) return true;
  return is_undecided(user->traces, lessee) ? std::nullopt : std::optional(false);
}

GpuUser user_of(ProcessView view, const MakerOf& maker_of) {
  const Owner& owner = view.owner;
  Traces traces{.uid = owner.effective,
                .one_user = owner.real == owner.effective && owner.saved == owner.effective};
  if (const auto group = container_group_of(view.cgroup)) {
    traces.container = Container{*group, maker_of(*group)};
  }
  traces.leads_container = traces.container && view.leads_namespace;
  return {view.process, view.parent, std::move(view.command), std::move(traces), view.in_kernel};
}

Result<GpuUser> read_gpu_user(const std::string& proc_root, std::uint32_t pid,
                              const MakerOf& maker_of) {
  auto view = view_process(proc_root, pid);
  if (!view) return view.error();
  return user_of(*std::move(view), maker_of);
}

}  // namespace gpuyard::processes
