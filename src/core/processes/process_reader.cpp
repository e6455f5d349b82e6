#include "core/processes/process_reader.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace gpuyard::processes {
namespace {

// Reading waits for a lock of the process's memory. A process that hangs inside a driver may hold
// it without end, and the reader would hang too.
Result<std::vector<std::string>> read_arguments(const UniqueFd& process, char state) {
  if (state == 'D') return Error{Errc::busy, "not read: the process is blocked in the kernel"};
  if (state == 'Z') return Error{Errc::not_found, "the process has exited"};
  const auto bytes = read_beginning(process, "cmdline", kMaxArgumentBytes + 1);
  if (!bytes) return bytes.error();
  const bool cut = bytes->size() > kMaxArgumentBytes;
  return arguments_of(std::string_view(*bytes).substr(0, kMaxArgumentBytes), cut);
}

Result<ProcessMetadata> facts_of(std::uint32_t pid, const UniqueFd& process,
                                 const ProcessStat& stat, const MakerLookup& maker_of) {
  ProcessMetadata facts;
  facts.pid = pid;
  const auto start = start_of(stat);
  if (!start) return start.error();
  facts.started = *start;
  facts.use = use_of(stat, BootClock::now());
  facts.started_at =
      wall_now() - std::chrono::duration_cast<std::chrono::milliseconds>(BootClock::now() - *start);
  facts.command = valid_text(stat.command, kMaxCommandBytes);
  const auto status = read_status(process);
  if (!status) return status.error();
  const auto uids = uids_in(*status);
  if (!uids) return Error{Errc::invalid, "its status file names no user"};
  facts.uid = uids->effective;
  facts.real_uid = uids->real;
  const auto groups = read_cgroup(process);
  facts.cgroup = groups ? cgroup_info_of(*groups, maker_of) : Result<CgroupInfo>(groups.error());
  facts.arguments = read_arguments(process, stat.state);
  return facts;
}

constexpr std::size_t kMaxStatBytes = 4096;
constexpr std::size_t kMaxStatusBytes = 4096;  // all useful lines come first
constexpr std::size_t kMaxCgroupBytes = std::size_t{64} * 1024;

Error no_such_process() {
  return {Errc::not_found,
          "no process with this PID is visible: it has exited, is hidden, or has another PID in "
          "this namespace"};
}

// Turns errno into an error, after a failure in a process's directory.
Error read_error(std::string_view what) {
  switch (errno) {
    case ENOENT:
    case ESRCH:
    case ENOTDIR:
      return no_such_process();
    case EACCES:
    case EPERM:
      return {Errc::denied, fmt::format("its {} is hidden from this user", what)};
    default:
      return system_error(fmt::format("reading its {}", what));
  }
}

// Returns the rest of the line behind the label. A process cannot forge an earlier line: the kernel
// escapes line ends in its name.
std::string_view line_of(std::string_view status, std::string_view label) {
  const std::size_t at = status.find(label);
  if (at == std::string_view::npos) return {};
  status.remove_prefix(at + label.size());
  return status.substr(0, status.find('\n'));
}

// A tick is 10 ms in the interface of every Linux that has NVIDIA's driver.
std::optional<Duration> length_of(std::uint64_t ticks) {
  static const long ticks_per_second = ::sysconf(_SC_CLK_TCK);
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const std::uint64_t tick = kSecond / static_cast<std::uint64_t>(ticks_per_second);
  if (ticks > std::numeric_limits<std::int64_t>::max() / tick) return std::nullopt;
  return Duration(static_cast<Duration::rep>(ticks * tick));
}

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

Result<StatSummary> ProcessReader::read_stat_summary(std::uint32_t pid) const {
  const auto process = open_process(proc_root_, pid);
  if (!process) return process.error();
  const auto stat = read_stat(*process);
  if (!stat) return stat.error();
  const auto start = start_of(*stat);
  if (!start) return start.error();
  return StatSummary{*start, valid_text(stat->command, kMaxCommandBytes),
                     use_of(*stat, BootClock::now())};
}

// The open directory stays the same process's, even when the number is reused. The second read of
// stat makes sure of this in a copy of /proc too, and shows that the process was still there at the
// end, and did not become another program meanwhile.
Result<ProcessMetadata> ProcessReader::read(std::uint32_t pid) const {
  const auto process = open_process(proc_root_, pid);
  if (!process) return process.error();
  constexpr int kAttempts = 3;
  auto before = read_stat(*process);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (!before) return before.error();
    auto facts = facts_of(pid, *process, *before, maker_of_);
    auto after = read_stat(*process);
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

Result<UniqueFd> open_process(const std::string& proc_root, std::uint32_t pid) {
  UniqueFd process(::open(fmt::format("{}/{}", proc_root, pid).c_str(),
                          O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (process) return process;
  const Error error = read_error("directory");
  const UniqueFd root(::open(proc_root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return system_error("opening " + proc_root);
  return error;
}

Result<std::string> read_beginning(const UniqueFd& directory, const char* name,
                                   std::size_t max_bytes) {
  const UniqueFd file(::openat(directory.get(), name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return read_error(name);
  std::string text;
  std::array<char, 4096> chunk{};
  while (text.size() < max_bytes) {
    const std::size_t wanted = std::min(chunk.size(), max_bytes - text.size());
    const ssize_t got = ::read(file.get(), chunk.data(), wanted);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return read_error(name);
    if (got == 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return text;
}

Result<ProcessStat> read_stat(const UniqueFd& directory, const char* name) {
  const auto text = read_beginning(directory, name, kMaxStatBytes);
  if (!text) return text.error();
  auto stat = parse_process_stat(*text);
  if (!stat) return Error{Errc::invalid, "its stat file is malformed"};
  return *std::move(stat);
}

Result<TimePoint> start_of(const ProcessStat& stat) {
  const auto since_boot = length_of(stat.start_ticks);
  if (!since_boot) return Error{Errc::invalid, "its start time is invalid"};
  return TimePoint(*since_boot);
}

HostUse use_of(const ProcessStat& stat, TimePoint at) {
  static const long page_bytes = ::sysconf(_SC_PAGESIZE);
  constexpr std::uint64_t kMaxPages = std::uint64_t{1} << 40;
  return {at, length_of(stat.cpu_ticks).value_or(Duration::zero()),
          static_cast<std::int64_t>(std::min(stat.resident_pages, kMaxPages)) * page_bytes};
}

Result<std::string> read_status(const UniqueFd& process) {
  return read_beginning(process, "status", kMaxStatusBytes);
}

Result<std::string> read_cgroup(const UniqueFd& process) {
  return read_beginning(process, "cgroup", kMaxCgroupBytes);
}

// The line has the real user, the effective, the saved, and that of the file system.
std::optional<ProcessUids> uids_in(std::string_view status) {
  std::string_view line = line_of(status, "\nUid:\t");
  ProcessUids uids;
  for (std::uint32_t* const uid : {&uids.real, &uids.effective, &uids.saved}) {
    const auto number = take_number<std::uint32_t>(line);
    if (!number || !line.starts_with('\t')) return std::nullopt;
    *uid = *number;
    line.remove_prefix(1);
  }
  return uids;
}

// The line has the process's number in each of its namespaces, from the reader's inwards.
bool is_pid_namespace_init(std::string_view status) {
  std::string_view numbers = line_of(status, "\nNSpid:\t");
  take_until('\t', numbers);
  return numbers == "1";
}

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
  const auto process = open_process(proc_root, pid);
  if (!process) return process.error();
  const auto stat = read_stat(*process);
  if (!stat) return stat.error();
  const auto start = start_of(*stat);
  if (!start) return start.error();
  const auto status = read_status(*process);
  if (!status) return status.error();
  const auto uids = uids_in(*status);
  if (!uids) return Error{Errc::invalid, "its status file names no user"};
  auto cgroup = read_cgroup(*process);
  const auto after = read_stat(*process);
  if (!after || after->start_ticks != stat->start_ticks) {
    return Error{Errc::not_found, "the process exited while it was being read"};
  }
  return ProcessView{{pid, *start},
                     stat->parent,
                     stat->state == 'D',
                     *uids,
                     is_pid_namespace_init(*status),
                     valid_text(stat->command, kMaxCommandBytes),
                     cgroup ? *std::move(cgroup) : ""};
}

// There is always a process 1.
bool hides_processes(const std::string& proc_root) {
  const auto first = open_process(proc_root, 1);
  return !first || !read_stat(*first);
}

bool process_exists(std::uint32_t pid) {
  if (pid == 0 || pid > INT32_MAX) return false;  // kill() takes these for groups of processes
  return ::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM;
}

}  // namespace gpuyard::processes
