#include "processes/membership.h"

#include <algorithm>
#include <iterator>

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
  if (!of_containers_.empty()) settle();
}

void Membership::add_known(const ProcessKey& process, Lessees& all) const {
  const auto known = known_.find(process);
  if (known != known_.end()) join(all, known->second);
}

// Anybody may put any name into an environment: a stranger's word makes nobody a member but who is
// on a GPU of the lease, where he would keep others away all the same.
void Membership::add_marked(const Traces& traces, Where where, Lessees& all) const {
  for (std::size_t i = 0; i < lessees_.size() && !traces.marked.empty(); ++i) {
    const Lessee& lessee = lessees_[i];
    const bool its_user = traces.one_user && traces.uid == lessee.uid;
    if ((its_user || where == Where::on_its_gpu) && traces.marked == lessee.lease) all[i] = true;
  }
  if (!traces.container) return;
  const auto& containers = where == Where::on_its_gpu ? named_by_containers_ : of_containers_;
  const auto container = containers.find(*traces.container);
  if (container != containers.end()) join(all, container->second);
}

const Membership::Lessees& Membership::of(std::uint32_t pid) const {
  const auto own = own_.find(pid);
  return own == own_.end() ? none_ : own->second;
}

// One that is younger did not start the child: it got the number of who did.
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

// From the process up to the first that is settled already, and down again.
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
    const Lessees& own = of(pid);
    Lessees& named = named_by_containers_.try_emplace(*traces.container, none_).first->second;
    join(named, own);
    add_marked(traces, Where::on_its_gpu, named);
    if (std::ranges::find(own, true) == own.end()) continue;
    join(of_containers_.try_emplace(*traces.container, none_).first->second, own);
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

std::optional<bool> Membership::has(std::size_t lessee, const Result<GpuUser>& user) const {
  if (!user) return std::nullopt;
  const Lessee& whose = lessees_[lessee];
  if (whose.whole_user && user->traces.uid == whose.uid) return true;
  Lessees all = none_;
  add_marked(user->traces, Where::on_its_gpu, all);
  if (evidence_.same_numbers) {
    add_known(user->process, all);
    join(all, of_parent(user->parent, user->process));
  }
  if (all[lessee]) return true;
  if (!evidence_.same_numbers || !evidence_.table) return std::nullopt;
  const ProcessRow* const row = evidence_.table->find(user->process.pid);
  return row != nullptr && row->process == user->process && of(row->process.pid)[lessee];
}

}  // namespace gpuyard::processes
