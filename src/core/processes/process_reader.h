// Reads what /proc says of processes. Every call may block, as /proc does when a process waits
// inside the kernel: it is for a worker's thread, or a program that does nothing else.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "core/processes/group_makers.h"
#include "gpu/device/process.h"

namespace gpuyard::processes {

inline constexpr std::string_view kProcRoot = "/proc";

// The most bytes of a process's arguments that are returned; the last argument then ends with "…".
// A process may have megabytes of them.
inline constexpr std::size_t kMaxArgumentBytes = 4096;

// The facts of a process that cost least to read: one file.
struct StatSummary {
  TimePoint started;
  std::string command;
  HostUse use = {};

  // Whether both are of one process, and of one program in it.
  bool matches(const StatSummary& other) const {
    return started == other.started && command == other.command;
  }
};

// Every text becomes valid UTF-8. Any thread may call any member.
class ProcessReader {
 public:
  // `proc_root`: the mount of the /proc with the driver's process numbers.
  explicit ProcessReader(std::string proc_root = std::string(kProcRoot),
                         MakerLookup maker_of = GroupMakers::of_this_machine())
      : proc_root_(std::move(proc_root)), maker_of_(std::move(maker_of)) {}

  // Errc::not_found: no such process is visible there; Errc::denied: it is hidden.
  Result<StatSummary> read_stat_summary(std::uint32_t pid) const;

  // Reads all facts but the user's name. They are of one process, even if its number is reused
  // meanwhile. Errors as above.
  Result<ProcessMetadata> read(std::uint32_t pid) const;

  const std::string& proc_root() const { return proc_root_; }

 private:
  std::string proc_root_;
  MakerLookup maker_of_;
};

// Splits the beginning of /proc/<pid>/cmdline into arguments; `cut`: the file went on.
std::vector<std::string> arguments_of(std::string_view bytes, bool cut);

// The files of a process's directory in /proc that several readers use. Every call may block, and
// is for a worker's thread. Errc::not_found: the process is gone; Errc::denied: it is hidden from
// this user.

inline constexpr std::size_t kMaxCommandBytes = 64;  // the kernel's own threads have more than 15

// Opens the directory, which stays the same process's, even when the number is reused.
Result<UniqueFd> open_process(const std::string& proc_root, std::uint32_t pid);

// Reads at most the first `max_bytes` bytes of a file, whose name is relative to `directory`.
Result<std::string> read_beginning(const UniqueFd& directory, const char* name,
                                   std::size_t max_bytes);

// `name`: "stat" in the process's directory, "7/stat" in /proc.
Result<ProcessStat> read_stat(const UniqueFd& directory, const char* name = "stat");
Result<TimePoint> start_of(const ProcessStat&);
// `at`: when the file was read.
HostUse use_of(const ProcessStat&, TimePoint at);
Result<std::string> read_status(const UniqueFd& process);
Result<std::string> read_cgroup(const UniqueFd& process);

struct ProcessUids {
  std::uint32_t real = 0;
  std::uint32_t effective = 0;
  std::uint32_t saved = 0;

  friend bool operator==(const ProcessUids&, const ProcessUids&) = default;
};

// These take the text of a status file.
std::optional<ProcessUids> uids_in(std::string_view status);
// Returns whether it is the first process of a PID namespace directly below the reader's, like a
// container's first process. Users inside a container may create further namespaces.
bool is_pid_namespace_init(std::string_view status);

// Turns untrusted bytes into text that may be stored, shown and sent. Takes at most `max_bytes`
// bytes; bytes that are not UTF-8 become U+FFFD, which may make the text longer.
inline std::string valid_text(std::string_view bytes, std::size_t max_bytes) {
  const bool cut = bytes.size() > max_bytes;
  bytes = bytes.substr(0, max_bytes);
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t length = utf8_sequence_length(bytes);
    constexpr std::size_t kMaxSequenceLength = 4;
    if (length == 0 && cut && bytes.size() < kMaxSequenceLength) break;  // cut inside a character
    text += length > 0 ? bytes.substr(0, length) : kReplacementCharacter;
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return text;
}

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

// Returns whether /proc hides other users' processes from this one (hidepid).
bool hides_processes(const std::string& proc_root);

// Returns whether this PID namespace has a process of this number. The kernel says so even of
// hidden processes.
bool process_exists(std::uint32_t pid);

}  // namespace gpuyard::processes
