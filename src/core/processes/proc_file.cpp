#include "processes/proc_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "base/files.h"

namespace gpuyard::processes {
namespace {

constexpr std::size_t kMostStatBytes = 4096;
constexpr std::size_t kMostStatusBytes = 4096;  // what is of use stands in its first lines
constexpr std::size_t kMostCgroupBytes = std::size_t{64} * 1024;

Error nobody() {
  return {Errc::not_found,
          "no process of this number is visible: it has ended, is hidden, or has another number "
          "in this PID namespace"};
}

// errno after a failure in a process's directory.
Error cannot(std::string_view what) {
  switch (errno) {
    case ENOENT:
    case ESRCH:
    case ENOTDIR:
      return nobody();
    case EACCES:
    case EPERM:
      return {Errc::denied, fmt::format("its {} is hidden from this user", what)};
    default:
      return system_error(fmt::format("reading its {}", what));
  }
}

// What stands behind the label. No line before these is the process's own to write: the kernel
// escapes line ends in its name.
std::string_view line_of(std::string_view status, std::string_view label) {
  const std::size_t at = status.find(label);
  if (at == std::string_view::npos) return {};
  status.remove_prefix(at + label.size());
  return status.substr(0, status.find('\n'));
}

}  // namespace

Result<UniqueFd> open_process(const std::string& proc_root, std::uint32_t pid) {
  UniqueFd process(::open(fmt::format("{}/{}", proc_root, pid).c_str(),
                          O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (process) return process;
  const Error error = cannot("directory");
  const UniqueFd root(::open(proc_root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return system_error("opening " + proc_root);
  return error;
}

Result<std::string> beginning_of(const UniqueFd& directory, const char* name, std::size_t most) {
  const UniqueFd file(::openat(directory.get(), name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return cannot(name);
  std::string text;
  std::array<char, 4096> chunk{};
  while (text.size() < most) {
    const std::size_t wanted = std::min(chunk.size(), most - text.size());
    const ssize_t got = ::read(file.get(), chunk.data(), wanted);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot(name);
    if (got == 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return text;
}

Result<ProcessStat> read_stat(const UniqueFd& directory, const char* name) {
  const auto text = beginning_of(directory, name, kMostStatBytes);
  if (!text) return text.error();
  auto stat = parse_process_stat(*text);
  if (!stat) return Error{Errc::invalid, "its stat file makes no sense"};
  return *std::move(stat);
}

// A tick is 10 ms in the interface of every Linux that has NVIDIA's driver.
Result<TimePoint> start_of(const ProcessStat& stat) {
  static const long ticks_per_second = ::sysconf(_SC_CLK_TCK);
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const std::uint64_t tick = kSecond / static_cast<std::uint64_t>(ticks_per_second);
  if (stat.start_ticks > std::numeric_limits<std::int64_t>::max() / tick) {
    return Error{Errc::invalid, "its start time makes no sense"};
  }
  return TimePoint(Duration(static_cast<Duration::rep>(stat.start_ticks * tick)));
}

Result<std::string> read_status(const UniqueFd& process) {
  return beginning_of(process, "status", kMostStatusBytes);
}

Result<std::string> read_cgroup(const UniqueFd& process) {
  return beginning_of(process, "cgroup", kMostCgroupBytes);
}

// The real one, the effective, the saved, and that of the file system.
std::optional<Owner> owner_in(std::string_view status) {
  std::string_view line = line_of(status, "\nUid:\t");
  Owner owner;
  for (std::uint32_t* const uid : {&owner.real, &owner.effective, &owner.saved}) {
    const auto parsed = std::from_chars(line.data(), line.data() + line.size(), *uid);
    if (parsed.ec != std::errc{}) return std::nullopt;
    line.remove_prefix(static_cast<std::size_t>(parsed.ptr - line.data()));
    if (!line.starts_with('\t')) return std::nullopt;
    line.remove_prefix(1);
  }
  return owner;
}

// Its number in each namespace it is in, from that of the reader inwards.
bool leads_pid_namespace(std::string_view status) {
  return line_of(status, "\nNSpid:\t").ends_with("\t1");
}

}  // namespace gpuyard::processes
