#include "core/processes/proc_files.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>

#include <fmt/format.h>

#include "base/files.h"
#include "base/try.h"

namespace gpuyard::processes {
namespace {

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

}  // namespace

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
  const auto text = GPUYARD_TRY(read_beginning(directory, name, kMaxStatBytes));
  auto stat = parse_process_stat(text);
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
