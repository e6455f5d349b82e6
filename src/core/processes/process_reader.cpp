#include "processes/process_reader.h"

#include "processes/cgroup.h"
#include "processes/proc_file.h"
#include "processes/valid_text.h"

namespace gpuyard::processes {
namespace {

// Reading them waits for a lock of the process's memory: one that hangs inside a driver may hold it
// for ever, and whoever reads them hangs with it.
Result<std::vector<std::string>> read_arguments(const UniqueFd& process, char state) {
  if (state == 'D') return Error{Errc::busy, "not asked: the process waits inside the kernel"};
  if (state == 'Z') return Error{Errc::not_found, "the process has ended and left nothing else"};
  const auto bytes = beginning_of(process, "cmdline", kMostArgumentBytes + 1);
  if (!bytes) return bytes.error();
  const bool cut = bytes->size() > kMostArgumentBytes;
  return arguments_of(std::string_view(*bytes).substr(0, kMostArgumentBytes), cut);
}

Result<Placement> read_placement(const UniqueFd& process) {
  const auto text = read_cgroup(process);
  if (!text) return text.error();
  return placement_of(*text);
}

Result<ProcessFacts> facts_of(std::uint32_t pid, const UniqueFd& process, const ProcessStat& stat) {
  ProcessFacts facts;
  facts.pid = pid;
  const auto start = start_of(stat);
  if (!start) return start.error();
  facts.started = *start;
  facts.started_at =
      wall_now() - std::chrono::duration_cast<std::chrono::milliseconds>(BootClock::now() - *start);
  facts.command = valid_text(stat.command, kMostCommandBytes);
  const auto status = read_status(process);
  if (!status) return status.error();
  const auto owner = owner_in(*status);
  if (!owner) return Error{Errc::invalid, "its status file names no user"};
  facts.uid = owner->effective;
  facts.real_uid = owner->real;
  facts.placement = read_placement(process);
  facts.arguments = read_arguments(process, stat.state);
  return facts;
}

}  // namespace

ProcessReader::ProcessReader(std::string proc_root) : proc_root_(std::move(proc_root)) {}

Result<Glance> ProcessReader::glance(std::uint32_t pid) const {
  const auto process = open_process(proc_root_, pid);
  if (!process) return process.error();
  const auto stat = read_stat(*process);
  if (!stat) return stat.error();
  const auto start = start_of(*stat);
  if (!start) return start.error();
  return Glance{*start, valid_text(stat->command, kMostCommandBytes)};
}

// The open directory is one process's and nobody else's, even when the number is given anew; the
// second look at stat makes sure that this also holds where it is not (in a copy of /proc), that
// the process still was there at the end, and that it did not become another program meanwhile.
Result<ProcessFacts> ProcessReader::read(std::uint32_t pid) const {
  const auto process = open_process(proc_root_, pid);
  if (!process) return process.error();
  constexpr int kAttempts = 3;
  auto before = read_stat(*process);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (!before) return before.error();
    auto facts = facts_of(pid, *process, *before);
    auto after = read_stat(*process);
    if (!after) return after.error();
    const bool same =
        after->start_ticks == before->start_ticks && after->command == before->command;
    if (same) return facts;
    before = std::move(after);
  }
  return Error{Errc::busy, "the process changed while it was looked at"};
}

std::vector<std::string> arguments_of(std::string_view bytes, bool cut) {
  std::vector<std::string> arguments;
  if (!cut && bytes.ends_with('\0')) {
    bytes.remove_suffix(1);
  } else if (bytes.empty()) {
    return arguments;  // a thread of the kernel's
  }
  for (;;) {
    const std::size_t end = std::min(bytes.find('\0'), bytes.size());
    arguments.push_back(valid_text(bytes.substr(0, end), kMostArgumentBytes));
    if (end == bytes.size()) break;
    bytes.remove_prefix(end + 1);
  }
  if (cut) arguments.back() += "\u2026";
  return arguments;
}

}  // namespace gpuyard::processes
