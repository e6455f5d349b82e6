// All processes at once: who there is, and who started whom. One file of each is read.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace gpuyard::processes {

// One process for ever, within a boot.
struct ProcessKey {
  std::uint32_t pid = 0;
  TimePoint started;

  friend auto operator<=>(const ProcessKey&, const ProcessKey&) = default;
};

struct ProcessRow {
  ProcessKey process;
  std::uint32_t parent = 0;  // 0: none in this PID namespace
  bool ended = false;        // nothing of it runs, only nobody asked yet how it ended
  bool in_kernel = false;    // and cannot be asked for what is in its memory
  std::string command = {};  // at most 15 bytes, but for the kernel's own

  friend bool operator==(const ProcessRow&, const ProcessRow&) = default;
};

struct ProcessTable {
  // More are not listed.
  static constexpr std::size_t kMost = 65'536;

  std::vector<ProcessRow> rows;  // by number
  // There is a process, but nothing is to be seen of it.
  std::set<std::uint32_t> unreadable = {};
  bool complete = true;  // else there may be others, of which not even the number is seen

  const ProcessRow* find(std::uint32_t pid) const;
};

// Blocks on /proc. The processes are not all of one moment: one that starts meanwhile may be
// missing.
Result<ProcessTable> read_process_table(const std::string& proc_root);

// Whether the kernel knows a process of this number of ours, as it tells also those who may see
// nothing of it.
bool process_exists(std::uint32_t pid);

}  // namespace gpuyard::processes
