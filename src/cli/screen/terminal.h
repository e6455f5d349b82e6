// The output of verbs: data on stdout, messages on stderr.
#pragma once

#include <signal.h>
#include <termios.h>

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/paths.h"
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

// Helpers for starting commands.

// Returns what exec wants. The words must outlive it.
std::vector<char*> pointers_to(const std::vector<std::string>& words);

// Prints the errno `failed`; returns the exit code, as a shell says it.
int print_exec_error(const std::string& command, int failed);

sigset_t signal_set(std::initializer_list<int> numbers);

// The output that stdout leads to: its size, and what it can show.

enum class ColorMode { automatic, always, never };

struct Screen {
  bool terminal = false;
  std::size_t columns = 0;  // 0: no limit, as in a file
  std::size_t rows = 0;     // 0: no limit
  bool color = false;
  bool utf8 = false;  // the locale is UTF-8, and TERM is no terminal of few glyphs

  static Screen of_stdout(ColorMode = ColorMode::automatic);
  bool has_room_for(std::size_t width) const { return columns == 0 || width <= columns; }
};

enum class Tone { plain, strong, faint, good, busy, warning, bad };

// `text` in that tone, or as it is on a screen without colour.
Printable painted(const Screen&, Tone, std::string_view text);
Printable painted_lines(const Screen&, Tone, const Printable& text);
template <std::same_as<Printable> Text>
Printable painted(const Screen& screen, Tone tone, const Text& text) {
  return painted_lines(screen, tone, text);
}

// A terminal that is redrawn again and again, and the signals that end or disturb it.

// Blocks signals that end the program; wait() returns them instead. Construct it before any thread
// starts, because threads inherit the mask.
class SignalWaiter {
 public:
  enum class Cause { time_passed, ended, resized, suspended, readable };

  SignalWaiter();
  SignalWaiter(SignalWaiter&&) = delete;

  // Waits until `deadline` or a signal: SIGINT, SIGTERM, SIGHUP and SIGQUIT end, SIGWINCH resizes,
  // SIGTSTP suspends. A signal that is already there is returned even after the deadline.
  // `also`: descriptors one of which may become readable.
  Cause wait(TimePoint deadline, std::span<const int> also = {});

 private:
  UniqueFd signals_;
};

// Stops this process, as SIGTSTP does where it is not blocked.
void suspend_self();

// Waits for the next tick, and resizes or suspends meanwhile; false: a signal asked to end.
bool wait_for_tick(
    SignalWaiter&, TimePoint next, const std::function<void()>& on_resize = [] {},
    const std::function<void()>& on_suspend = suspend_self);

// Draws on the terminal's other screen. The destructor brings the user's own screen back.
class LiveScreen {
 public:
  LiveScreen();
  LiveScreen(LiveScreen&&) = delete;
  ~LiveScreen();

  // Replaces what is shown. Cuts off lines beyond the last row.
  static void draw(const Printable& text, std::size_t rows);

  // Gives the screen back for something else, and takes it again.
  static void leave();
  static void enter();
  // Gives the screen back, stops this process as the terminal wanted, and takes it again.
  static void suspend();
};

// A terminal that sends each key at once and shows none. The destructor brings back what was.
class RawTerminal {
 public:
  RawTerminal();
  ~RawTerminal() { leave(); }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  void enter() const;
  void leave() const;

 private:
  termios saved_mode_{};
  bool has_saved_mode_;
};

// Lets the terminal report presses and the wheel, as numbers of any size; and no longer.
inline constexpr char kMouseOn[] = "\x1b[?1000h\x1b[?1006h";
inline constexpr char kMouseOff[] = "\x1b[?1006l\x1b[?1000l";
// Puts a text into the clipboard of the terminal's user, also through ssh (OSC 52).
Printable clipboard_bytes(std::string_view text);

}  // namespace gpuyard::cli
