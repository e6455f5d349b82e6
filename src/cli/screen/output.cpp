#include "cli/screen/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include <fmt/format.h>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"

namespace gpuyard::cli {
namespace {

constexpr std::string_view kOutputName = "the output";

Result<void> write_to(int fd, std::string_view name, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EPIPE) return Error{Errc::unavailable, "the pipe is closed"};
    if (written < 0) return system_error(fmt::format("writing {}", name));
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

// An error may contain the text of another program, in several lines.
Printable indented(std::string_view text, const Printable& by = "  ") {
  Printable out;
  for (const Printable& line : Printable::lines(text).split()) {
    if (!out.empty()) out += "\n" + by;
    out += line;
  }
  return out;
}

}  // namespace

Result<void> write_all(const UniqueFd& file, std::string_view name, const Printable& text) {
  return write_to(file.get(), name, text);
}

Result<void> try_print(const Printable& text) {
  return write_to(STDOUT_FILENO, kOutputName, text);
}

void print_stderr(const Printable& text) {
  static_cast<void>(write_to(STDERR_FILENO, kOutputName, text).ok());
}

void relay_to_stderr(std::string_view bytes) {
  static_cast<void>(write_to(STDERR_FILENO, kOutputName, bytes).ok());
}

void print(const Printable& text) {
  const auto printed = write_to(STDOUT_FILENO, kOutputName, text);
  if (printed) return;
  if (printed.error().code == Errc::unavailable) std::_Exit(0);
  std::_Exit(print_error(printed.error()));
}

Printable error_lines(const Error& error) {
  const Printable below = "         ";
  Printable text = formatted("gpuyard: {}\n", indented(error.message));
  if (!error.cause.empty()) text += formatted("  cause: {}\n", indented(error.cause, below));
  if (!error.hint.empty()) text += formatted("  try:   {}\n", indented(error.hint, below));
  return text;
}

int print_error(const Error& error) {
  print_stderr(error_lines(error));
  return exit_code_of(error.code);
}

void print_note(std::string_view text) {
  print_stderr(formatted("gpuyard: {}\n", indented(text)));
}

int report_result(const Result<void>& done) {
  return done ? 0 : print_error(done.error());
}

int print_exec_error(const std::string& command, int failed) {
  errno = failed;
  static_cast<void>(print_error(system_error("running " + command)));
  return failed == ENOENT ? kExitCommandNotFound : kExitCannotRun;
}

sigset_t signal_set(std::initializer_list<int> numbers) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : numbers) ::sigaddset(&set, number);
  return set;
}

}  // namespace gpuyard::cli
