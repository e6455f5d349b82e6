#include "cli/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "base/files.h"

namespace gpuyard::cli {
namespace {

void pad(std::string& line, std::string_view cell, std::size_t width, bool right, bool last) {
  const std::string blanks(width - std::min(width, width_of(cell)), ' ');
  if (right) line += blanks;
  line += cell;
  if (!right && !last) line += blanks;
}

}  // namespace

void print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EPIPE) std::_Exit(0);
    if (written < 0) {
      complain(system_error("writing to stdout"));
      std::_Exit(exit_code_of(Errc::internal));
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

int complain(const Error& error) {
  return complain(error, "");
}

int complain(const Error& error, std::string_view advice) {
  fmt::print(stderr, "gpuyard: {}\n", error.message);
  if (!advice.empty()) fmt::print(stderr, "{}\n", advice);
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
