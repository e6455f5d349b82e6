#include "processes/traces.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/boot.h"
#include "processes/cgroup.h"
#include "processes/proc_file.h"
#include "processes/valid_text.h"

namespace gpuyard::processes {
namespace {

// A program gets its environment last of all, after the files that close on exec are closed
// (fs/exec.c, begin_new_exec; fs/binfmt_elf.c, create_elf_tables): who waited for these may look,
// or have died, before there is one.
bool wait_until_loaded(const UniqueFd& process, TimePoint until) {
  for (;;) {
    const auto stat = read_stat(process);
    if (!stat || stat->state == 'D') return false;
    if (!stat->loading) return true;
    if (BootClock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TimePoint patience() {
  constexpr std::chrono::milliseconds kLongestLoading{100};  // it is microseconds on an idle core
  return BootClock::now() + kLongestLoading;
}

// Reading it waits for a lock of the process's memory, which one that hangs inside a driver may
// hold for ever. Nothing of one that has no environment yet.
std::optional<std::string> read_mark(const UniqueFd& process, bool in_kernel, TimePoint until) {
  if (in_kernel) return "";
  auto environment = beginning_of(process, "environ", kMostEnvironmentBytes);
  if (environment && environment->empty()) {
    if (!wait_until_loaded(process, until)) return std::nullopt;
    environment = beginning_of(process, "environ", kMostEnvironmentBytes);
  }
  return environment ? mark_in(*environment) : "";
}

Result<Traces> traces_of(const UniqueFd& process, bool in_kernel) {
  const auto status = read_status(process);
  if (!status) return status.error();
  const auto owner = owner_in(*status);
  if (!owner) return Error{Errc::invalid, "its status file names no user"};
  Traces traces{.uid = owner->effective,
                .one_user = owner->real == owner->effective && owner->saved == owner->effective,
                .marked = read_mark(process, in_kernel, patience()).value_or("")};
  if (const auto cgroup = read_cgroup(process)) traces.container = placement_of(*cgroup).container;
  traces.leads_container = traces.container && leads_pid_namespace(*status);
  return traces;
}

Error changed() {
  return {Errc::not_found, "the process ended while it was looked at"};
}

}  // namespace

// One that ends meanwhile is no other one: the directory is its own. Where it is not, in a copy of
// /proc, the second look at its start makes sure.
Result<GpuUser> read_gpu_user(const std::string& proc_root, std::uint32_t pid) {
  const auto process = open_process(proc_root, pid);
  if (!process) return process.error();
  const auto stat = read_stat(*process);
  if (!stat) return stat.error();
  const auto start = start_of(*stat);
  if (!start) return start.error();
  auto traces = traces_of(*process, stat->state == 'D');
  if (!traces) return traces.error();
  const auto after = read_stat(*process);
  if (!after || after->start_ticks != stat->start_ticks) return changed();
  return GpuUser{{pid, *start},
                 stat->parent,
                 valid_text(stat->command, kMostCommandBytes),
                 *std::move(traces)};
}

Result<Traces> read_traces(const std::string& proc_root, const ProcessRow& row) {
  auto user = read_gpu_user(proc_root, row.process.pid);
  if (!user) return user.error();
  if (user->process != row.process) return changed();
  return std::move(user->traces);
}

std::string mark_in(std::string_view environment) {
  constexpr std::size_t kLongestId = 64;
  while (!environment.empty()) {
    const std::size_t end = std::min(environment.find('\0'), environment.size());
    std::string_view entry = environment.substr(0, end);
    environment.remove_prefix(std::min(end + 1, environment.size()));
    if (!entry.starts_with(kLeaseVariable)) continue;
    entry.remove_prefix(kLeaseVariable.size());
    if (!entry.starts_with('=')) continue;
    entry.remove_prefix(1);
    return entry.size() <= kLongestId ? std::string(entry) : "";
  }
  return "";
}

std::map<std::uint32_t, std::string> Marks::read(const ProcessTable& table, TimePoint since,
                                                 TimePoint now) {
  std::map<std::uint32_t, Known> newest;
  std::map<std::uint32_t, std::string> marks;
  const TimePoint until = patience();
  for (const ProcessRow& row : table.rows) {
    const auto& [pid, started] = row.process;
    if (row.ended || row.in_kernel || started < since) continue;
    const auto known = known_.find(pid);
    const bool same = known != known_.end() && known->second.started == started &&
                      known->second.command == row.command;
    Known one{started, row.command, {}};
    if (same && started + kYoung < now) {
      one = std::move(known->second);
    } else if (const auto process = open_process(proc_root_, pid)) {
      auto mark = read_mark(*process, false, until);
      if (!mark) continue;
      one.mark = *std::move(mark);
    }
    if (!one.mark.empty()) marks.emplace(pid, one.mark);
    newest.emplace(pid, std::move(one));
  }
  known_ = std::move(newest);
  return marks;
}

}  // namespace gpuyard::processes
