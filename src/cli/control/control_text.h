// What came of changes of GPUs, or would come, one sentence for each.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "protocol/control.h"

namespace gpuyard::cli {

// Who reads it, and when.
struct ControlReader {
  std::string name;  // as the daemon names owners: "uid 1000"
  WallTime now;

  static ControlReader of_process();
};

// Whether the change came about, as far as it can be known by now.
bool succeeded(const protocol::Change&);

// "GPU 0 H100 80GB HBM3: power limit 700 W -> 300 W, until 14:05". `what` for changes that are of
// no setting; `gpu_name` may be empty.
std::string plan_line(const protocol::Change&, std::string_view what, std::string_view gpu_name,
                      const ControlReader&);

// "GPU 0: power limit 300 W (was 700 W), until 14:05", or why it failed.
std::string result_line(const protocol::Change&, std::string_view what, const ControlReader&);

// Of several errors that of which the user should know first; 0: all went well.
int worst_exit_code(const protocol::Changes&);

// "set gpu_clocks to [1200, 1500] MHz" with words for names: "set GPU clocks to ...".
std::string action_text(std::string_view action);

}  // namespace gpuyard::cli
