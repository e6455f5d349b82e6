#include "processes/process_reader.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "base/boot.h"
#include "base/files.h"
#include "processes/cgroup.h"
#include "processes/valid_text.h"

namespace gpuyard::processes {
namespace {

constexpr std::size_t kMostCommandBytes = 64;  // the kernel's own threads have more than 15
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

// What the file begins with, at most `most` bytes.
Result<std::string> beginning_of(const UniqueFd& process, const char* name, std::size_t most) {
  const UniqueFd file(::openat(process.get(), name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
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

Result<ProcessStat> stat_of(const UniqueFd& process) {
  const auto text = beginning_of(process, "stat", kMostStatBytes);
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

struct Owner {
  std::uint32_t real = 0;
  std::uint32_t effective = 0;
};

// "Uid:", then the real and the effective one. No line before it is the process's own to write:
// the kernel escapes line ends in its name.
std::optional<Owner> owner_in(std::string_view status) {
  constexpr std::string_view kLabel = "\nUid:\t";
  const std::size_t at = status.find(kLabel);
  if (at == std::string_view::npos) return std::nullopt;
  const char* const end = status.data() + status.size();
  Owner owner;
  const auto real = std::from_chars(status.data() + at + kLabel.size(), end, owner.real);
  if (real.ec != std::errc{} || real.ptr == end || *real.ptr != '\t') return std::nullopt;
  const auto effective = std::from_chars(real.ptr + 1, end, owner.effective);
  return effective.ec == std::errc{} ? std::optional(owner) : std::nullopt;
}

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
  const auto text = beginning_of(process, "cgroup", kMostCgroupBytes);
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
  const auto status = beginning_of(process, "status", kMostStatusBytes);
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

Result<UniqueFd> ProcessReader::open(std::uint32_t pid) const {
  UniqueFd process(::open(fmt::format("{}/{}", proc_root_, pid).c_str(),
                          O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (process) return process;
  const Error error = cannot("directory");
  const UniqueFd root(::open(proc_root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return system_error("opening " + proc_root_);
  return error;
}

Result<Glance> ProcessReader::glance(std::uint32_t pid) const {
  const auto process = open(pid);
  if (!process) return process.error();
  const auto stat = stat_of(*process);
  if (!stat) return stat.error();
  const auto start = start_of(*stat);
  if (!start) return start.error();
  return Glance{*start, valid_text(stat->command, kMostCommandBytes)};
}

// The open directory is one process's and nobody else's, even when the number is given anew; the
// second look at stat makes sure that this also holds where it is not (in a copy of /proc), that
// the process still was there at the end, and that it did not become another program meanwhile.
Result<ProcessFacts> ProcessReader::read(std::uint32_t pid) const {
  const auto process = open(pid);
  if (!process) return process.error();
  constexpr int kAttempts = 3;
  auto before = stat_of(*process);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (!before) return before.error();
    auto facts = facts_of(pid, *process, *before);
    auto after = stat_of(*process);
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
