// Starting a child process of our own: it gets what it is given and nothing else.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace gpuyard {

inline constexpr int kFirstGivenFd = 3;

struct SpawnPlan {
  // Empty: the running program itself, even if its file was replaced or removed since it started.
  std::string program = {};
  std::vector<std::string> arguments = {};  // without the program's own name
  bool looks_in_path = false;               // for a program without a slash
  // On top of our own environment; a name that is there gets this value.
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::vector<int> given = {};     // descriptors of ours; the child finds them as 3, 4, ...
  std::optional<int> output = {};  // a descriptor of ours that is its stdout and stderr
  bool keeps_stderr = true;        // else it is /dev/null, as are stdin and, without output, stdout
  bool own_session = false;        // a Ctrl-C meant for us does not reach it
};

// Every other descriptor is closed in the child, and signals are as in a fresh process, whatever we
// block or ignore. The caller waits for the child. Any thread may call it.
Result<pid_t> spawn(const SpawnPlan&);

}  // namespace gpuyard
