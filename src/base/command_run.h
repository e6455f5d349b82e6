// Runs a command that an administrator configured, beside the loop: without a shell, with its
// arguments unchanged, with a deadline, and with the end of its output kept. A thread of its own
// starts it, because the program's file may be on a disk that does not answer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/loop.h"

namespace gpuyard {

inline constexpr std::size_t kMaxCommandOutput = 4096;  // bytes; the last ones are kept

struct CommandOptions {
  std::vector<std::string> argv;  // the program first: a path, or a name in PATH
  // Added to the daemon's own environment.
  std::vector<std::pair<std::string, std::string>> environment = {};
  // The run fails if the command has not started within this time. A command that starts later is
  // killed.
  Duration start_timeout = limits::kCommandStartTimeout;
  Duration timeout = std::chrono::seconds(60);  // counted from the start
  // The time from SIGTERM, which is sent at the deadline, to SIGKILL.
  Duration grace_period = std::chrono::seconds(2);
};

struct CommandOutcome {
  enum class End {
    exited,
    signalled,
    timed_out,    // the deadline passed, however the command then ended
    not_started,  // `why` gives the reason
  };
  End end = End::not_started;
  int number = 0;           // exited: the exit status; signalled: the signal's number
  std::string output = {};  // stdout and stderr, as they came; the last kMaxCommandOutput bytes
  bool output_truncated = false;
  Duration duration{};
  std::string why = {};

  bool succeeded() const { return end == End::exited && number == 0; }
  std::string text() const;  // "exited with status 3"
};

// One run of a command; it begins with the construction. The command has a session of its own. When
// it ends, every process left in its process group is killed. Destroying it kills a command that
// still runs; the loop reaps the process later, when the kernel releases it. A command that floods
// its output is slowed down. Thread: io, which it never blocks.
class [[nodiscard]] CommandRun {
 public:
  using OnEnd = std::function<void(const CommandOutcome&)>;

  // The most commands of this process that may wait for a file system to let them start. Beyond it
  // a command is not started.
  static constexpr int kMaxStarting = limits::kMaxStartingCommands;

  // `on_end` runs once, on the loop, unless this object is destroyed first; it may destroy the
  // object itself. It runs at the latest one second after the sum of the options' times: a process
  // that survives SIGKILL is left behind.
  CommandRun(Loop& loop, const CommandOptions& options, OnEnd on_end);
  CommandRun(CommandRun&&) noexcept = default;
  CommandRun& operator=(CommandRun&&) = delete;
  ~CommandRun();

 private:
  class Process;
  std::shared_ptr<Process> process_;
};

}  // namespace gpuyard
