// What /proc says of one process. Every call reads files there and may block, as /proc may when a
// process waits inside the kernel: it is for a worker's thread, or a program that does nothing
// else.
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
#include "device/process.h"

namespace gpuyard::processes {

inline constexpr std::string_view kProcRoot = "/proc";

// A process may have megabytes of arguments; these are told, and the last one told ends with "…".
inline constexpr std::size_t kMostArgumentBytes = 4096;

// What can be seen of a process at the least cost: one file.
struct Glance {
  TimePoint started;
  std::string command;

  friend bool operator==(const Glance&, const Glance&) = default;
};

// Every text becomes valid UTF-8. Any thread may call any member.
class ProcessReader {
 public:
  // `proc_root`: where the /proc is mounted whose process ids the driver uses.
  explicit ProcessReader(std::string proc_root = std::string(kProcRoot))
      : proc_root_(std::move(proc_root)) {}

  // Errc::not_found: no such process is visible there; Errc::denied: it is hidden.
  Result<Glance> glance(std::uint32_t pid) const;

  // All but the user's name. The facts are of one process, whatever becomes of its number while
  // they are read. Errors as above.
  Result<ProcessFacts> read(std::uint32_t pid) const;

  const std::string& proc_root() const { return proc_root_; }

 private:
  std::string proc_root_;
};

// The arguments in what /proc/<pid>/cmdline begins with; `cut` if it went on.
std::vector<std::string> arguments_of(std::string_view bytes, bool cut);

// The files of a process's directory in /proc, as far as more than one reader looks at them. Every
// call may block, and is for a worker's thread. errno's meaning there: Errc::not_found, the process
// is gone; Errc::denied, it is hidden from this user.

inline constexpr std::size_t kMostCommandBytes = 64;  // the kernel's own threads have more than 15

// The directory, which is one process's and nobody else's, even when the number is given anew.
Result<UniqueFd> open_process(const std::string& proc_root, std::uint32_t pid);

// What the file, named from `directory` on, begins with: at most `most` bytes.
Result<std::string> beginning_of(const UniqueFd& directory, const char* name, std::size_t most);

// `name`: "stat" in the process's directory, "7/stat" in /proc.
Result<ProcessStat> read_stat(const UniqueFd& directory, const char* name = "stat");
Result<TimePoint> start_of(const ProcessStat&);
Result<std::string> read_status(const UniqueFd& process);
Result<std::string> read_cgroup(const UniqueFd& process);

struct Owner {
  std::uint32_t real = 0;
  std::uint32_t effective = 0;
  std::uint32_t saved = 0;
};

// These take the text of a status file.
std::optional<Owner> owner_in(std::string_view status);
// Whether it is the first process of a PID namespace below this one, as a container's first is.
bool leads_pid_namespace(std::string_view status);

// Bytes that a stranger chose, as text that may be stored, shown and sent.

// At most `most` bytes of `bytes`; what is not UTF-8 becomes U+FFFD (which may make it longer).
inline std::string valid_text(std::string_view bytes, std::size_t most) {
  const bool cut = bytes.size() > most;
  bytes = bytes.substr(0, most);
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t length = utf8_sequence_length(bytes);
    constexpr std::size_t kLongestSequence = 4;
    if (length == 0 && cut && bytes.size() < kLongestSequence) break;  // cut inside a character
    text += length > 0 ? bytes.substr(0, length) : kReplacementCharacter;
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return text;
}

// All processes at once: who there is, and who started whom. One file of each is read.

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
