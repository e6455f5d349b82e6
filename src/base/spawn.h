// Starts a child process that inherits only what it is given.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace gpuyard {

inline constexpr int kFirstPassedFd = 3;

struct SpawnOptions {
  // Empty: the running program itself, even if its file was replaced or removed after the start.
  std::string program = {};
  std::string display_name = {};            // the name in `ps`; empty: the path of the program
  std::vector<std::string> arguments = {};  // without the program's own name
  bool search_path = false;                 // like find_program()
  // Added to our own environment; replaces a variable that exists.
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::vector<int> passed_fds = {};    // our descriptors; the child has them as 3, 4, ...
  std::optional<int> output = {};      // our descriptor for its stdout and stderr
  std::optional<int> connection = {};  // our descriptor for its stdin and stdout, without output
  std::optional<int> errors = {};      // our descriptor for its stderr, without output
  bool inherit_stderr = true;  // else /dev/null, as are stdin and stdout that have no descriptor
  bool new_session = false;    // a Ctrl-C meant for us does not reach the child
  // The capabilities of ours that the child keeps, as in base/capabilities.h. Root's child has all.
  std::uint64_t capabilities = 0;
};

// The directories of a PATH. Empty and relative entries are skipped, because they mean the working
// directory, where another user may have put a program.
std::vector<std::string> absolute_folders(std::string_view path);

// Returns the directories of PATH, or the usual ones if it has none.
std::vector<std::string> program_folders();

// Returns the path of a program by its name. A name with a slash is already a path. For nvidia-smi,
// links to gpuyard are skipped: they are the simulator's. The error has errno's text.
Result<std::string> find_program(const std::string& name);

// The texts that exec takes.
struct ExecTexts {
  std::string program;
  std::vector<std::string> arguments;  // the name first
  std::vector<std::string> variables;  // the whole environment
};

// Makes the texts from the options, and searches for the program. May wait for a file system.
Result<ExecTexts> exec_texts(const SpawnOptions&);

// Returns our descriptors for 0, 1, 2, ... of the child; `null` stands for /dev/null.
std::vector<int> descriptors_for(const SpawnOptions&, int null);

// Returns what exec wants. The words must outlive it.
std::vector<char*> pointers_to(const std::vector<std::string>& words);

// Makes the error of a child that could not be started, from errno.
Error spawn_error(const SpawnOptions&);

// Starts the child. Closes every other descriptor in it and resets its signals to those of a fresh
// process, whatever we block or ignore. The caller waits for the child. Thread: any.
Result<pid_t> spawn(const SpawnOptions&);

inline constexpr std::size_t kMaxRunOutput = std::size_t{1} << 20;  // bytes

// Starts the child in a session of its own, waits for its end, and returns what it wrote to stdout
// and stderr. Drops what it writes behind `max_output` bytes. Kills its session's processes once
// `timeout` is over. Errc::timed_out: it was killed; Errc::unavailable: it failed; both with what
// it wrote.
Result<std::string> run_with_timeout(SpawnOptions options, Duration timeout,
                                     std::size_t max_output = kMaxRunOutput);

}  // namespace gpuyard
