#include "cli/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <fmt/format.h>

#include "base/files.h"

namespace gpuyard::cli {
namespace {

// Errc::unavailable: nobody reads the other end any more.
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

void pad(std::string& line, std::string_view cell, std::size_t width, bool right, bool last) {
  const std::string blanks(width - std::min(width, width_of(cell)), ' ');
  if (right) line += blanks;
  line += cell;
  if (!right && !last) line += blanks;
}

}  // namespace

Result<void> try_print(std::string_view text) {
  return write_all(STDOUT_FILENO, text);
}

void print(std::string_view text) {
  const auto printed = write_all(STDOUT_FILENO, text);
  if (printed) return;
  if (printed.error().code == Errc::unavailable) std::_Exit(0);
  std::_Exit(complain(printed.error()));
}

int complain(const Error& error) {
  return complain(error, "");
}

int complain(const Error& error, std::string_view advice) {
  std::string text = fmt::format("gpuyard: {}\n", error.message);
  if (!advice.empty()) text += fmt::format("{}\n", advice);
  static_cast<void>(write_all(STDERR_FILENO, text).ok());  // there is nowhere else to say it
  return exit_code_of(error.code);
}

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;  // not a continuation byte
  }));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (const std::string& heading : headings) widths.push_back(width_of(heading));
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string out;
  const auto add = [&](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) out += "  ";
      pad(out, cells[i], widths[i], right[i], i + 1 == cells.size());
    }
    out += '\n';
  };
  add(headings);
  for (const auto& row : rows) add(row);
  return out;
}

}  // namespace gpuyard::cli
