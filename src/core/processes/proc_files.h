// The files of a process's directory in /proc that several readers use. Every call may block, as
// /proc does when a process waits inside the kernel.
//
// Thread: worker, or a program that does nothing else. Errc::not_found: the process is gone;
// Errc::denied: it is hidden from this user.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/proc_stat.h"
#include "base/result.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "gpu/device/process.h"

namespace gpuyard::processes {

inline constexpr std::string_view kProcRoot = "/proc";

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

// Returns whether /proc hides other users' processes from this one (hidepid).
bool hides_processes(const std::string& proc_root);

// Returns whether this PID namespace has a process of this number. The kernel says so even of
// hidden processes.
bool process_exists(std::uint32_t pid);

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

}  // namespace gpuyard::processes
