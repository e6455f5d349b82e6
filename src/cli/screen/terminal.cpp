#include "cli/screen/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "base/files.h"
#include "base/log.h"
#include "base/parameters.h"
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

void print(const Printable& text) {
  const auto printed = write_to(STDOUT_FILENO, kOutputName, text);
  if (printed) return;
  if (printed.error().code == Errc::unavailable) std::_Exit(0);
  std::_Exit(print_error(printed.error()));
}

namespace {

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

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
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

namespace {

constexpr char kEnterScreen[] = "\x1b[?1049h\x1b[?25l";  // other screen, no cursor
constexpr char kLeaveScreen[] = "\x1b[?25h\x1b[?1049l";
constexpr char kCursorHome[] = "\x1b[H";
constexpr char kClearLine[] = "\x1b[K";
constexpr char kClearBelow[] = "\x1b[J";

}  // namespace

SignalWaiter::SignalWaiter() {
  const sigset_t set = signal_set({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP});
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

SignalWaiter::Cause SignalWaiter::wait(TimePoint deadline, std::span<const int> also) {
  while (true) {
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      const auto number = static_cast<int>(info.ssi_signo);
      if (number == SIGWINCH) return Cause::resized;
      return number == SIGTSTP ? Cause::suspended : Cause::ended;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - BootClock::now());
    if (left.count() <= 0) return Cause::time_passed;
    std::vector<pollfd> polled{{signals_.get(), POLLIN, 0}};
    for (const int fd : also) polled.push_back({fd, POLLIN, 0});
    // poll() takes an int: longer waits are made in pieces.
    constexpr std::int64_t kMaxPollMs = 60'000;
    ::poll(polled.data(), polled.size(),
           static_cast<int>(std::min<std::int64_t>(left.count(), kMaxPollMs)));
    const bool signalled = polled.front().revents != 0;
    const auto readable = [](const pollfd& one) { return one.revents != 0; };
    if (!signalled && std::any_of(polled.begin() + 1, polled.end(), readable)) {
      return Cause::readable;
    }
  }
}

void suspend_self() {
  ::raise(SIGSTOP);
}

bool wait_for_tick(SignalWaiter& signals, TimePoint next, const std::function<void()>& on_resize,
                   const std::function<void()>& on_suspend) {
  while (true) {
    switch (signals.wait(next)) {
      case SignalWaiter::Cause::time_passed:
      case SignalWaiter::Cause::readable:
        return true;
      case SignalWaiter::Cause::ended:
        return false;
      case SignalWaiter::Cause::resized:
        on_resize();
        break;
      case SignalWaiter::Cause::suspended:
        on_suspend();
        break;
    }
  }
}

LiveScreen::LiveScreen() {
  log::set_level(log::Level::error);  // a line of it would stay on the screen
  print(kEnterScreen);
}

LiveScreen::~LiveScreen() {
  static_cast<void>(try_print(kLeaveScreen).ok());  // the terminal may be gone
}

void LiveScreen::draw(const Printable& text, std::size_t rows) {
  const std::vector<Printable> lines = text.split();
  Printable out = kCursorHome;
  for (std::size_t row = 0; row < std::min(rows, lines.size()); ++row) {
    out += lines[row] + kClearLine;
    // A newline at the end of the last row would scroll.
    if (row + 1 < rows) out += "\r\n";
  }
  print(out + kClearBelow);
}

void LiveScreen::leave() {
  print(kLeaveScreen);
}

void LiveScreen::enter() {
  print(kEnterScreen);
}

void LiveScreen::suspend() {
  leave();
  suspend_self();
  enter();
}

RawTerminal::RawTerminal() : has_saved_mode_(::tcgetattr(STDIN_FILENO, &saved_mode_) == 0) {
  enter();
}

void RawTerminal::enter() const {
  if (!has_saved_mode_) return;
  termios raw = saved_mode_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

void RawTerminal::leave() const {
  if (has_saved_mode_) ::tcsetattr(STDIN_FILENO, TCSANOW, &saved_mode_);
}

Printable clipboard_bytes(std::string_view text) {
  return formatted("\x1b]52;c;{}\x07", encode_base64(text));
}

}  // namespace gpuyard::cli
