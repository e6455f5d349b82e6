#include "cli/screen/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "base/parameters.h"
#include "base/paths.h"
#include "base/text.h"

namespace gpuyard::cli {
namespace {

// Finds the locale as setlocale() does, but without changing the program's own behaviour.
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = to_lower(environment_variable(name));
    if (value.empty()) continue;
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

// The locale says what a terminal decodes, and not what its font can draw: the text console of
// Linux (console_codes(4)) has 256 or 512 glyphs, and the others know no UTF-8 at all.
bool has_few_glyphs(std::string_view term) {
  constexpr std::array<std::string_view, 2> kExactly = {"linux", "dumb"};
  constexpr std::array<std::string_view, 6> kBeginnings = {"linux-", "vt52",  "vt100",
                                                           "vt102",  "vt220", "ansi"};
  return std::ranges::find(kExactly, term) != kExactly.end() ||
         std::ranges::any_of(kBeginnings,
                             [&](std::string_view one) { return term.starts_with(one); });
}

// COLUMNS and LINES override the terminal's size, as in every program that draws on one.
std::size_t size_from(const char* variable, unsigned short reported, std::size_t otherwise) {
  std::string_view text = environment_variable(variable);
  const std::size_t size = take_number<std::size_t>(text).value_or(0);
  if (size > 0) return size;
  return reported > 0 ? reported : otherwise;
}

// no-color.org: any value but an empty one means no.
bool should_color(ColorMode mode, bool terminal) {
  if (mode != ColorMode::automatic) return mode == ColorMode::always;
  return terminal && environment_variable("NO_COLOR").empty() &&
         environment_variable("TERM") != "dumb";
}

// In the order of the tones.
constexpr std::array<std::string_view, 7> kToneCodes = {"", "1", "2", "32", "36", "33", "1;31"};

}  // namespace

Screen Screen::of_stdout(ColorMode mode) {
  Screen screen;
  screen.terminal = ::isatty(STDOUT_FILENO) == 1;
  screen.color = should_color(mode, screen.terminal);
  screen.utf8 = locale_is_utf8() && !has_few_glyphs(environment_variable("TERM"));
  if (!screen.terminal) return screen;
  constexpr std::size_t kDefaultColumns = 80;
  constexpr std::size_t kDefaultRows = 24;
  winsize size{};
  static_cast<void>(::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size));  // on failure it stays 0
  screen.columns = size_from("COLUMNS", size.ws_col, kDefaultColumns);
  screen.rows = size_from("LINES", size.ws_row, kDefaultRows);
  return screen;
}

Printable painted(const Screen& screen, Tone tone, std::string_view text) {
  return painted_lines(screen, tone, Printable(text));
}

Printable painted_lines(const Screen& screen, Tone tone, const Printable& text) {
  if (!screen.color || tone == Tone::plain || text.empty()) return text;
  return formatted("\x1b[{}m{}\x1b[0m", kToneCodes[static_cast<std::size_t>(tone)], text);
}

}  // namespace gpuyard::cli
