// A command that an administrator configured, run beside the loop: its arguments as they are and no
// shell, with a deadline, and the end of what it said. A thread of its own starts it, for the file
// of a program may be on a disk that does not answer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/shares.h"

namespace gpuyard {

inline constexpr std::size_t kCommandOutputKept = 4096;  // bytes, the last ones

struct CommandPlan {
  std::vector<std::string> argv;  // the program first: a path, or a name that PATH knows
  // On top of our own environment.
  std::vector<std::pair<std::string, std::string>> environment = {};
  // One that is not started by then is not started; if it is all the same, it is killed.
  Duration start_within = shares::kStart;
  Duration deadline = std::chrono::seconds(60);  // from its start on
  // From SIGTERM, which it gets at its deadline, to SIGKILL.
  Duration grace = std::chrono::seconds(2);
};

struct CommandOutcome {
  enum class End {
    exited,
    signalled,
    timed_out,    // it was ended at its deadline, however it then ended
    not_started,  // `why` says more
  };
  End end = End::not_started;
  int number = 0;           // exited: its status; signalled: the signal
  std::string output = {};  // stdout and stderr, as they came; the last kCommandOutputKept bytes
  bool output_cut = false;
  Duration took{};
  std::string why = {};

  bool succeeded() const { return end == End::exited && number == 0; }
  std::string text() const;  // "exited with status 3"
};

// One run, from its construction on. It has a session of its own; whatever it started and left in
// its process group is killed when it ends. Destroy it on the loop's thread, which ends a command
// that still runs at once; it is then reaped by the loop whenever the kernel lets go of it. On a
// thread of the loop; never blocks it, and a command that floods us is slowed down.
class [[nodiscard]] CommandRun {
 public:
  using Ended = std::function<void(const CommandOutcome&)>;

  // So many commands of a program wait for a file system that does not let them start; more are
  // not started.
  static constexpr int kMostStarting = shares::kStarting;

  // `ended` runs once, on the loop, unless this is destroyed first - which it may be in there. At
  // the latest a second after all these times: a process that even SIGKILL does not end is left
  // behind.
  CommandRun(Loop& loop, const CommandPlan& plan, Ended ended);
  CommandRun(CommandRun&&) noexcept = default;
  CommandRun& operator=(CommandRun&&) = delete;
  ~CommandRun();

 private:
  class Process;
  std::shared_ptr<Process> process_;
};

}  // namespace gpuyard
