#include "core/processes/process_table.h"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/files.h"
#include "base/text.h"
#include "base/try.h"
#include "base/unique_fd.h"

namespace gpuyard::processes {
namespace {

using Directory = std::unique_ptr<DIR, int (*)(DIR*)>;

// The first thread of a process may have ended while others still run, or hang inside a driver.
bool has_ended(const ProcessStat& stat) {
  return stat.state == 'X' || (stat.state == 'Z' && stat.threads <= 1);
}

void add_row(ProcessTable& table, std::uint32_t pid, const UniqueFd& root) {
  const auto stat = read_stat(root, (std::to_string(pid) + "/stat").c_str());
  if (!stat && stat.error().code == Errc::not_found) return;
  const auto start = stat ? start_of(*stat) : Result<TimePoint>(stat.error());
  if (!start) {
    table.unreadable.insert(pid);
    return;
  }
  table.rows.push_back({.process = {pid, *start},
                        .parent = stat->parent,
                        .ended = has_ended(*stat),
                        .in_kernel = stat->state == 'D',
                        .command = valid_text(stat->command, kMaxCommandBytes)});
}

}  // namespace

const ProcessRow* ProcessTable::find(std::uint32_t pid) const {
  const auto at = std::ranges::lower_bound(rows, pid, {},
                                           [](const ProcessRow& row) { return row.process.pid; });
  return at != rows.end() && at->process.pid == pid ? &*at : nullptr;
}

Result<ProcessTable> read_process_table(const std::string& proc_root) {
  const Directory directory(::opendir(proc_root.c_str()), &::closedir);
  if (!directory) return system_error("opening " + proc_root);
  const UniqueFd root(::open(proc_root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return system_error("opening " + proc_root);
  ProcessTable table;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(directory.get());
    if (entry == nullptr && errno != 0) return system_error("listing " + proc_root);
    if (entry == nullptr) break;
    const std::uint32_t pid = parse_number<std::uint32_t>(entry->d_name).value_or(0);
    if (pid == 0) continue;
    if (table.rows.size() + table.unreadable.size() >= ProcessTable::kMaxRows) {
      table.complete = false;
      break;
    }
    add_row(table, pid, root);
  }
  std::ranges::sort(table.rows, {}, &ProcessRow::process);
  // There is always a process 1: if it is hidden, others are hidden too (hidepid).
  if (table.find(1) == nullptr) table.complete = false;
  return table;
}

// The open directory stays the same process's, even if that ends meanwhile. In a copy of /proc this
// does not hold, and the second read of the start makes sure.
Result<ProcessView> view_process(const std::string& proc_root, std::uint32_t pid) {
  const auto process = GPUYARD_TRY(open_process(proc_root, pid));
  const auto stat = GPUYARD_TRY(read_stat(process));
  const auto start = GPUYARD_TRY(start_of(stat));
  const auto status = GPUYARD_TRY(read_status(process));
  const auto uids = uids_in(status);
  if (!uids) return Error{Errc::invalid, "its status file names no user"};
  auto cgroup = read_cgroup(process);
  const auto after = read_stat(process);
  if (!after || after->start_ticks != stat.start_ticks) {
    return Error{Errc::not_found, "the process exited while it was being read"};
  }
  return ProcessView{{pid, start},
                     stat.parent,
                     stat.state == 'D',
                     *uids,
                     is_pid_namespace_init(status),
                     valid_text(stat.command, kMaxCommandBytes),
                     cgroup ? *std::move(cgroup) : ""};
}

}  // namespace gpuyard::processes
