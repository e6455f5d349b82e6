#include "core/processes/marks.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/text.h"
#include "core/processes/mark_client.h"

namespace gpuyard::processes {
namespace {

// A program gets its environment last, after the files that close on exec are closed (fs/exec.c,
// begin_new_exec; fs/binfmt_elf.c, create_elf_tables). A process that waited for these files may
// read, or have died, before there is an environment.
bool wait_until_loaded(const UniqueFd& process, TimePoint until) {
  for (;;) {
    const auto stat = read_stat(process);
    if (!stat || stat->state == 'D') return false;
    if (!stat->loading) return true;
    if (BootClock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Does not read a process that hangs inside the kernel: it may hold the lock of its memory
// without end, and reading waits for that lock. Returns nothing if the environment cannot be read
// now.
std::optional<std::string> read_mark(const std::string& proc_root, const ProcessKey& key,
                                     TimePoint until) {
  const auto process = open_process(proc_root, key.pid);
  if (!process) return std::nullopt;
  const auto stat = read_stat(*process);
  if (!stat || stat->state == 'D') return std::nullopt;
  const auto start = start_of(*stat);
  if (!start || *start != key.started) return std::nullopt;
  auto environment = read_beginning(*process, "environ", kMaxEnvironmentBytes);
  if (environment && environment->empty()) {
    if (!wait_until_loaded(*process, until)) return std::nullopt;
    environment = read_beginning(*process, "environ", kMaxEnvironmentBytes);
  }
  if (!environment) return std::nullopt;
  return lease_in_environment(*environment);
}

}  // namespace

std::string lease_in_environment(std::string_view environment) {
  while (!environment.empty()) {
    std::string_view entry = take_until('\0', environment);
    if (!take_prefix(entry, kLeaseVariable) || !take_prefix(entry, "=")) continue;
    return entry.size() <= kMaxLeaseIdLength ? std::string(entry) : "";
  }
  return "";
}

// FNV-1a. A process with a command that collides only hides that it changed its own program.
std::uint32_t program_of(std::string_view command) {
  std::uint32_t digest = 2'166'136'261U;
  for (const char c : command) digest = (digest ^ static_cast<unsigned char>(c)) * 16'777'619U;
  return digest;
}

const std::string* MarkReader::mark_of(const ScanTarget& target, TimePoint now, TimePoint until) {
  const auto known = cache_.find(target.process.pid);
  const bool same = known != cache_.end() && known->second.is_of(target);
  if (same && !target.reread && target.process.started + kStartupPeriod < now)
    return &known->second.lease;
  auto mark = read_mark(proc_root_, target.process, until);
  if (!mark) return nullptr;
  if (cache_.size() >= kMaxCachedMarks) cache_.clear();
  return &cache_.insert_or_assign(target.process.pid, KnownMark{target, *std::move(mark)})
              .first->second.lease;
}

std::vector<MarkIndex> MarkReader::read(std::span<const ScanTarget> processes,
                                        std::span<const std::string> leases, TimePoint now,
                                        TimePoint until) {
  std::map<std::string_view, MarkIndex> indexes;
  for (std::size_t i = 0; i < leases.size(); ++i) {
    if (!leases[i].empty()) indexes.emplace(leases[i], static_cast<MarkIndex>(i));
  }
  std::vector<MarkIndex> result;
  result.reserve(processes.size());
  for (const ScanTarget& target : processes) {
    const std::string* const mark = mark_of(target, now, until);
    const auto found = mark != nullptr ? indexes.find(*mark) : indexes.end();
    result.push_back(mark == nullptr          ? kMarkUnreadable
                     : found == indexes.end() ? kNoMark
                                              : found->second);
  }
  return result;
}

std::vector<EnvironmentScanner::Mark> EnvironmentScanner::read(
    const std::vector<ScanTarget>& processes, const std::vector<std::string>& leases,
    TimePoint now) {
  auto mark_indexes = client_ ? client_->fetch_marks(pid_space_, processes, leases) : std::nullopt;
  const bool lost = client_ && !mark_indexes && client_->has_replied();
  if (!mark_indexes) {
    mark_indexes =
        reader_.read(processes, leases, now, BootClock::now() + MarkReader::kLoadTimeout);
  }
  std::vector<Mark> marks;
  std::map<std::uint32_t, KnownMark> seen;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const ScanTarget& target = processes[i];
    const MarkIndex mark_index = (*mark_indexes)[i];
    Mark mark;
    if (mark_index >= 0) {
      mark.lease = leases[static_cast<std::size_t>(mark_index)];
    } else if (mark_index == kMarkUnreadable) {
      const auto last = last_marks_.find(target.process.pid);
      if (last != last_marks_.end() && last->second.is_of(target)) {
        mark.lease = last->second.lease;
      } else {
        mark.known = !lost;
      }
    }
    if (!mark.lease.empty()) {
      seen.insert_or_assign(target.process.pid, KnownMark{target, mark.lease});
    }
    marks.push_back(std::move(mark));
  }
  last_marks_ = std::move(seen);
  return marks;
}

}  // namespace gpuyard::processes
