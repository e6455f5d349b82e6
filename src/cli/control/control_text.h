// Changes of GPUs as sentences: what they did, or would do.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "faces/protocol/control.h"

namespace gpuyard::cli {

// The user who reads it, and when.
struct ControlReader {
  std::string name;  // as the daemon names owners: "uid 1000"
  WallTime now;

  static ControlReader of_process();
};

// Whether the change succeeded, as far as is known now.
bool has_succeeded(const protocol::ChangeResult&);

// "GPU 0 H100 80GB HBM3: power limit 700 W -> 300 W, until 14:05". `what` names changes that are
// not of a setting; `gpu_name` may be empty.
std::string plan_line(const protocol::ChangeResult&, std::string_view what,
                      std::string_view gpu_name, const ControlReader&);

// "GPU 0: power limit 300 W (was 700 W), until 14:05", or why it failed.
std::string result_line(const protocol::ChangeResult&, std::string_view what, const ControlReader&);

// Returns the exit code of the error that the user should know first; 0: all went well.
int worst_exit_code(const protocol::ChangeResults&);

// Turns "set gpu_clocks to [1200, 1500] MHz" into "set GPU clocks to ...".
std::string action_text(std::string_view action);

}  // namespace gpuyard::cli
