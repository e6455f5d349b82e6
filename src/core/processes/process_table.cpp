#include "processes/process_table.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <string_view>

#include "base/files.h"
#include "base/unique_fd.h"
#include "processes/proc_file.h"
#include "processes/valid_text.h"

namespace gpuyard::processes {
namespace {

using Directory = std::unique_ptr<DIR, int (*)(DIR*)>;

std::uint32_t number_of(std::string_view name) {
  std::uint32_t number = 0;
  const char* const begin = name.data();
  const char* const end = begin + name.size();
  const auto parsed = std::from_chars(begin, end, number);
  return parsed.ec == std::errc{} && parsed.ptr == end ? number : 0;
}

// The first thread of a process may have ended while others run, also inside a driver that lets
// nobody go.
bool has_ended(const ProcessStat& stat) {
  return stat.state == 'X' || (stat.state == 'Z' && stat.threads <= 1);
}

void add(ProcessTable& table, std::uint32_t pid, const UniqueFd& root) {
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
                        .command = valid_text(stat->command, kMostCommandBytes)});
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
    const std::uint32_t pid = number_of(entry->d_name);
    if (pid == 0) continue;
    if (table.rows.size() + table.unreadable.size() >= ProcessTable::kMost) {
      table.complete = false;
      break;
    }
    add(table, pid, root);
  }
  std::ranges::sort(table.rows, {}, &ProcessRow::process);
  // There always is a first one: who does not see it does not see everybody (hidepid).
  if (table.find(1) == nullptr) table.complete = false;
  return table;
}

bool process_exists(std::uint32_t pid) {
  if (pid == 0 || pid > INT32_MAX) return false;  // to kill() these are many
  return ::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM;
}

}  // namespace gpuyard::processes
