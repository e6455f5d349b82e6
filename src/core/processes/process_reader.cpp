#include "core/processes/process_reader.h"

#include <algorithm>

#include "base/try.h"
#include "base/unique_fd.h"
#include "core/processes/cgroup.h"
#include "core/processes/proc_files.h"
#include "core/processes/process_table.h"

namespace gpuyard::processes {
namespace {

// Reading waits for a lock of the process's memory. A process that hangs inside a driver may hold
// it without end, and the reader would hang too.
Result<std::vector<std::string>> read_arguments(const UniqueFd& process, char state) {
  if (state == 'D') return Error{Errc::busy, "not read: the process is blocked in the kernel"};
  if (state == 'Z') return Error{Errc::not_found, "the process has exited"};
  const auto bytes = GPUYARD_TRY(read_beginning(process, "cmdline", kMaxArgumentBytes + 1));
  const bool cut = bytes.size() > kMaxArgumentBytes;
  return arguments_of(std::string_view(bytes).substr(0, kMaxArgumentBytes), cut);
}

Result<ProcessMetadata> facts_of(std::uint32_t pid, const UniqueFd& process,
                                 const ProcessStat& stat, const MakerLookup& maker_of) {
  ProcessMetadata facts;
  facts.pid = pid;
  const auto start = GPUYARD_TRY(start_of(stat));
  facts.started = start;
  facts.use = use_of(stat, BootClock::now());
  facts.started_at =
      wall_now() - std::chrono::duration_cast<std::chrono::milliseconds>(BootClock::now() - start);
  facts.command = valid_text(stat.command, kMaxCommandBytes);
  const auto status = GPUYARD_TRY(read_status(process));
  const auto uids = uids_in(status);
  if (!uids) return Error{Errc::invalid, "its status file names no user"};
  facts.uid = uids->effective;
  facts.real_uid = uids->real;
  const auto groups = read_cgroup(process);
  facts.cgroup = groups ? cgroup_info_of(*groups, maker_of) : Result<CgroupInfo>(groups.error());
  facts.arguments = read_arguments(process, stat.state);
  return facts;
}

}  // namespace

Result<StatSummary> ProcessReader::read_stat_summary(std::uint32_t pid) const {
  const auto process = GPUYARD_TRY(open_process(proc_root_, pid));
  const auto stat = GPUYARD_TRY(read_stat(process));
  const auto start = GPUYARD_TRY(start_of(stat));
  return StatSummary{start, valid_text(stat.command, kMaxCommandBytes),
                     use_of(stat, BootClock::now())};
}

// The open directory stays the same process's, even when the number is reused. The second read of
// stat makes sure of this in a copy of /proc too, and shows that the process was still there at the
// end, and did not become another program meanwhile.
Result<ProcessMetadata> ProcessReader::read(std::uint32_t pid) const {
  const auto process = GPUYARD_TRY(open_process(proc_root_, pid));
  constexpr int kAttempts = 3;
  auto before = read_stat(process);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (!before) return before.error();
    auto facts = facts_of(pid, process, *before, maker_of_);
    auto after = read_stat(process);
    if (!after) return after.error();
    const bool same =
        after->start_ticks == before->start_ticks && after->command == before->command;
    if (same) return facts;
    before = std::move(after);
  }
  return Error{Errc::busy, "the process changed while it was being read"};
}

std::vector<std::string> arguments_of(std::string_view bytes, bool cut) {
  std::vector<std::string> arguments;
  if (!cut && bytes.ends_with('\0')) {
    bytes.remove_suffix(1);
  } else if (bytes.empty()) {
    return arguments;  // a thread of the kernel
  }
  for (;;) {
    const std::size_t end = std::min(bytes.find('\0'), bytes.size());
    arguments.push_back(valid_text(bytes.substr(0, end), kMaxArgumentBytes));
    if (end == bytes.size()) break;
    bytes.remove_prefix(end + 1);
  }
  if (cut) arguments.back() += "\u2026";
  return arguments;
}

}  // namespace gpuyard::processes
