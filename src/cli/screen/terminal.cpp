#include "cli/screen/terminal.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include <fmt/format.h>

#include "base/files.h"
#include "base/printable.h"
#include "cli/screen/fitted_table.h"

namespace gpuyard::cli {

Result<void> write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EPIPE) return Error{Errc::unavailable, "the pipe is closed"};
    if (written < 0) return system_error("writing to the terminal");
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<void> try_print(std::string_view text) {
  return write_all(STDOUT_FILENO, text);
}

void print(std::string_view text) {
  const auto printed = write_all(STDOUT_FILENO, text);
  if (printed) return;
  if (printed.error().code == Errc::unavailable) std::_Exit(0);
  std::_Exit(complain(printed.error()));
}

namespace {

// Of several lines: an error may be a stranger's words in ours.
std::string printable_lines(std::string_view text) {
  std::string out;
  for (;;) {
    const std::size_t end = text.find('\n');
    out += printable(text.substr(0, end));
    if (end == text.npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

}  // namespace

int complain(const Error& error) {
  return complain(error, "");
}

int complain(const Error& error, std::string_view advice) {
  std::string text = fmt::format("gpuyard: {}\n", printable_lines(error.message));
  if (!advice.empty()) text += fmt::format("{}\n", advice);
  static_cast<void>(write_all(STDERR_FILENO, text).ok());  // there is nowhere else to say it
  return exit_code_of(error.code);
}

void say(std::string_view text) {
  static_cast<void>(
      write_all(STDERR_FILENO, fmt::format("gpuyard: {}\n", printable_lines(text))).ok());
}

std::string Table::text() const {
  FittedTable table;
  for (std::size_t i = 0; i < headings.size(); ++i) {
    Column column{headings[i], right[i]};
    for (const auto& row : rows) column.cells.push_back({row[i]});
    table.columns.push_back(std::move(column));
  }
  return table.text(Screen{});
}

}  // namespace gpuyard::cli
