// Carries out a change: by a verb of this program, or by a signal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/top/action.h"

namespace gpuyard::cli::top {

// Runs a verb of this program, and returns what it says, or as the error why it failed. Ends it
// after 20 s.
Result<std::string> run_verb(const std::vector<std::string>& words);
// Without the program's name, with which the lines of a command's errors begin.
std::string without_program_name(std::string_view said);
// The words of a line, as a shell takes it apart: blanks, and quotes that keep them.
std::vector<std::string> split_words(std::string_view line);
// Sends a signal to a process of this machine, if it still is that process. `signal` is its name,
// without SIG. Errc::not_found: it has ended, or the pid is another's by now.
Result<void> send_signal(const ProcessKey&, const std::string& signal);
// Errc::not_found: the process has ended, or is not of this machine.
Result<void> check_process(const ProcessKey&);

}  // namespace gpuyard::cli::top
