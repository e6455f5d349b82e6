// The output of verbs: data on stdout, messages on stderr.
#pragma once

#include <signal.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "cli/screen/printable.h"

namespace gpuyard::cli {

// Exit codes of a command, as a shell says them.
inline constexpr int kExitCannotRun = 126;
inline constexpr int kExitCommandNotFound = 127;
inline constexpr int kExitSignalBase = 128;  // plus the number of the signal that ended it

// Writes to stdout. A closed pipe ends the program quietly, a full disk with an error.
void print(const Printable& text);
// The same, but never ends the program.
Result<void> try_print(const Printable& text);
// Writes to stderr, if it can: there is nowhere else to report a failure.
void print_stderr(const Printable& text);

// Passes on what a command wrote that runs for the user, as it is: colours, and bytes that are no
// text. It never fails, as print_stderr().
void relay_to_stderr(std::string_view bytes);

// Writes to a file of the user. Errc::unavailable: the other end is closed.
Result<void> write_all(const UniqueFd& file, std::string_view name, const Printable& text);

// Returns what print_error() writes.
Printable error_lines(const Error&);
// Writes "gpuyard: <message>" to stderr, then "  cause: <cause>" and "  try:   <command>", each if
// there is one; returns the exit code of the error. Further commands stand below the first.
int print_error(const Error&);
// Prints an error, if there is one; returns the exit code.
int report_result(const Result<void>& done);
// Writes "gpuyard: <text>" to stderr, where nothing went wrong. Lines after the first are indented,
// so that text of another program cannot imitate a line of gpuyard.
void print_note(std::string_view text);

// Prints the errno `failed`; returns the exit code, as a shell says it.
int print_exec_error(const std::string& command, int failed);

sigset_t signal_set(std::initializer_list<int> numbers);

}  // namespace gpuyard::cli
