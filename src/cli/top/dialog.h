// The dialog that is shown before each change: what is typed into it, and whether it is complete.
#pragma once

#include <cstddef>
#include <string>

#include "cli/top/action.h"
#include "cli/top/keys.h"

namespace gpuyard::cli::top {

// The dialog on the screen, and what has been typed into it.
struct Dialog {
  Action action;
  std::size_t field = 0;                // the one that is typed into; behind the last: the proof
  std::string typed_confirmation = {};  // as typed
  std::string planned = {};             // what would happen, in the daemon's words
  std::string error = {};
  bool in_progress = false;
};

// Types a sign at the end of a text, or takes one away.
void edit_text(std::string& text, const Stroke&);
// Takes a stroke. True: the user wants it done, and all that it needs is there.
bool handle_stroke(Dialog&, const Stroke&);

}  // namespace gpuyard::cli::top
