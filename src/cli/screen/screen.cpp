#include "cli/screen/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>

#include "base/ascii.h"

namespace gpuyard::cli {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// As setlocale() would find it, but nothing of the program's own behaviour changes with it.
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = to_lower(environment(name));
    if (value.empty()) continue;
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

// COLUMNS and LINES win, as for every program that draws on a terminal.
std::size_t size_from(const char* variable, unsigned short told, std::size_t otherwise) {
  const std::string_view text = environment(variable);
  std::size_t size = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), size);
  if (parsed.ec == std::errc{} && size > 0) return size;
  return told > 0 ? told : otherwise;
}

// no-color.org: any value but an empty one means no.
bool wants_color(ColorWish wish, bool terminal) {
  if (wish != ColorWish::automatic) return wish == ColorWish::always;
  return terminal && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
}

std::string_view code_of(Tone tone) {
  switch (tone) {
    case Tone::strong:
      return "1";
    case Tone::faint:
      return "2";
    case Tone::good:
      return "32";
    case Tone::busy:
      return "36";
    case Tone::warning:
      return "33";
    case Tone::bad:
      return "1;31";
    case Tone::plain:
      break;
  }
  return "";
}

}  // namespace

Screen Screen::of_stdout(ColorWish wish) {
  Screen screen;
  screen.terminal = ::isatty(STDOUT_FILENO) == 1;
  screen.color = wants_color(wish, screen.terminal);
  screen.utf8 = locale_is_utf8();
  if (!screen.terminal) return screen;
  constexpr std::size_t kUsualColumns = 80;
  constexpr std::size_t kUsualRows = 24;
  winsize size{};
  static_cast<void>(::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size));  // then it stays 0
  screen.columns = size_from("COLUMNS", size.ws_col, kUsualColumns);
  screen.rows = size_from("LINES", size.ws_row, kUsualRows);
  return screen;
}

std::string painted(const Screen& screen, Tone tone, std::string_view text) {
  if (!screen.color || tone == Tone::plain || text.empty()) return std::string(text);
  return std::string("\x1b[").append(code_of(tone)).append("m").append(text).append("\x1b[0m");
}

}  // namespace gpuyard::cli
