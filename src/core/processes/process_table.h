// The processes that /proc shows, their parents, and what leases need to know of one of them.
//
// Thread: worker. Every call may block on /proc.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "core/processes/proc_files.h"

namespace gpuyard::processes {

// Names one process uniquely within a boot.
struct ProcessKey {
  std::uint32_t pid = 0;
  TimePoint started;

  friend auto operator<=>(const ProcessKey&, const ProcessKey&) = default;
};

struct ProcessRow {
  ProcessKey process;
  std::uint32_t parent = 0;  // 0: none in this PID namespace
  bool ended = false;        // a zombie: its parent has not waited for it yet
  bool in_kernel = false;    // waits inside the kernel, and its memory cannot be read
  std::string command = {};  // at most 15 bytes, except for the kernel's own threads

  friend bool operator==(const ProcessRow&, const ProcessRow&) = default;
};

// All processes and their parents. One file of each is read.
struct ProcessTable {
  // The most processes that are listed. Further ones are left out.
  static constexpr std::size_t kMaxRows = 65'536;

  std::vector<ProcessRow> rows;  // by number
  // Processes that exist, but cannot be read.
  std::set<std::uint32_t> unreadable = {};
  bool complete = true;  // false: there may be processes whose numbers are hidden too

  const ProcessRow* find(std::uint32_t pid) const;
};

// Blocks on /proc. The processes are not all of one moment: a process that starts meanwhile may be
// missing.
Result<ProcessTable> read_process_table(const std::string& proc_root);

// The facts of one process that leases need.
struct ProcessView {
  ProcessKey process;
  std::uint32_t parent = 0;
  bool in_kernel = false;  // waits inside the kernel, and its memory cannot be read
  ProcessUids uids = {};
  bool is_namespace_init = false;  // see is_pid_namespace_init()
  std::string command = {};
  std::string cgroup = {};  // the text of its file; "" if that cannot be read

  friend bool operator==(const ProcessView&, const ProcessView&) = default;
};

// Blocks on /proc. The view is of one process, even if its number is reused meanwhile.
// Errc::not_found: no such process is visible; Errc::denied: it is hidden.
Result<ProcessView> view_process(const std::string& proc_root, std::uint32_t pid);

}  // namespace gpuyard::processes
