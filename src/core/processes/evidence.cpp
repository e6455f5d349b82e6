#include "core/processes/evidence.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "core/processes/mark_client.h"
#include "core/processes/proc_files.h"
#include "core/processes/process_table.h"

namespace gpuyard::processes {
namespace {

// Returns the earliest start of any lease's process: no process of a lease is older than its known
// ones. A lease without known processes may have processes of any age.
TimePoint earliest_start(const std::vector<LeaseProcesses>& leases) {
  TimePoint oldest = TimePoint::max();
  for (const LeaseProcesses& lease : leases) {
    const auto first = std::ranges::min_element(lease.known, {}, &ProcessKey::started);
    oldest = std::min(oldest, first == lease.known.end() ? TimePoint::min() : first->started);
  }
  return oldest;
}

std::vector<std::string> lease_ids_of(const std::vector<LeaseProcesses>& leases) {
  std::vector<std::string> ids;
  for (const LeaseProcesses& lease : leases) ids.push_back(lease.lease);
  return ids;
}

// Adds the known processes that exist, but are hidden from the table.
void add_hidden(const std::vector<LeaseProcesses>& leases, ProcessTable& table) {
  if (table.complete) return;
  for (const LeaseProcesses& lease : leases) {
    for (const ProcessKey& process : lease.known) {
      if (table.find(process.pid) == nullptr && process_exists(process.pid)) {
        table.unreadable.insert(process.pid);
      }
    }
  }
}

// Returns whether this process has the same number there.
bool has_same_pids(const std::string& proc_root) {
  std::error_code failed;
  return std::filesystem::read_symlink(proc_root + "/self", failed) == std::to_string(::getpid());
}

Result<GpuUser> check_pid_not_reused(Result<GpuUser> user, TimePoint listed) {
  if (user && user->process.started > listed) {
    return Error{Errc::conflict, "its process has exited, and its PID was reused"};
  }
  return user;
}

}  // namespace

EvidenceReader::EvidenceReader(std::string proc_root, std::string own_root, OwnerLookup quota_owner,
                               MakerLookup maker_of, const std::shared_ptr<MarkClient>& marks)
    : proc_root_(std::move(proc_root)),
      own_root_(std::move(own_root)),
      quota_owner_(std::move(quota_owner)),
      maker_of_(std::move(maker_of)),
      mark_client_(marks),
      table_scanner_(own_root_, PidSpace::ours, marks),
      gpu_user_scanner_(proc_root_, PidSpace::drivers, marks) {}

void EvidenceReader::read_table(const std::vector<LeaseProcesses>& leases, TimePoint now,
                                Evidence& evidence) {
  evidence.table = read_process_table(own_root_);
  if (!evidence.table) return;
  if (!evidence.table->complete && mark_client_ && hides_processes(own_root_)) {
    if (auto all = mark_client_->table()) evidence.table = *std::move(all);
  }
  add_hidden(leases, *evidence.table);
  const TimePoint since = earliest_start(leases);
  std::vector<ScanTarget> targets;
  for (const ProcessRow& row : evidence.table->rows) {
    if (row.ended || row.in_kernel || row.process.started < since) continue;
    targets.push_back({row.process, program_of(row.command)});
  }
  const auto marks = table_scanner_.read(targets, lease_ids_of(leases), now);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (marks[i].lease.empty()) continue;
    const ProcessKey& process = targets[i].process;
    auto user = read_user(own_root_, PidSpace::ours, process.pid);
    if (!user || user->process != process) continue;
    user->traits.marked_lease = marks[i].lease;
    evidence.traits.emplace(process.pid, std::move(user->traits));
  }
}

Result<GpuUser> EvidenceReader::read_user(const std::string& proc_root, PidSpace pid_space,
                                          std::uint32_t pid) {
  auto user = read_gpu_user(proc_root, pid, maker_of_);
  if (user || !mark_client_ || !hides_processes(proc_root)) return user;
  auto view = mark_client_->view(pid_space, pid);
  return view ? gpu_user_of(*std::move(view), maker_of_) : std::move(user);
}

// The environments of GPU users are read at each observation: they decide who uses a GPU.
void EvidenceReader::read_marks_of_users(const std::vector<LeaseProcesses>& leases, TimePoint now,
                                         Evidence& evidence) {
  std::vector<ScanTarget> targets;
  for (const auto& [pid, user] : evidence.gpu_users) {
    if (!user || user->in_kernel) continue;
    targets.push_back({user->process, program_of(user->command), true});
  }
  const auto marks = gpu_user_scanner_.read(targets, lease_ids_of(leases), now);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    ProcessTraits& traits = evidence.gpu_users.at(targets[i].process.pid)->traits;
    traits.marked_lease = marks[i].lease;
    traits.mark_known = marks[i].known;
  }
}

Evidence EvidenceReader::read(const std::vector<LeaseProcesses>& leases,
                              const ProcessCache::ListTimes& gpu_users, PidOrigin pid_origin,
                              TimePoint now) {
  Evidence evidence;
  evidence.quota_owner = quota_owner_;
  evidence.same_pids = proc_root_ == own_root_ || has_same_pids(proc_root_);
  const Result<void> visible = check_pid_origin(pid_origin, proc_root_);
  // The table is younger than the GPUs' lists, so that a row that took over a parent's number is
  // younger than the child.
  if (!leases.empty()) read_table(leases, now, evidence);
  for (const auto& [pid, listed] : gpu_users) {
    evidence.gpu_users.emplace(
        pid, visible ? check_pid_not_reused(read_user(proc_root_, PidSpace::drivers, pid), listed)
                     : visible.error());
  }
  read_marks_of_users(leases, now, evidence);
  return evidence;
}

}  // namespace gpuyard::processes
