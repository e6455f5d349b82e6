// What verbs print: data on stdout, messages on stderr.
#pragma once

#include <signal.h>

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace gpuyard::cli {

// Exit codes of a command, as a shell says them.
inline constexpr int kCannotRun = 126;
inline constexpr int kNoSuchCommand = 127;
inline constexpr int kSignalled = 128;  // plus the number of the signal that ended it

// Writes to stdout. A closed pipe ends the program quietly, a full disk with an error.
void print(std::string_view text);
// The same without ending anything.
Result<void> try_print(std::string_view text);

// To any descriptor. Errc::unavailable: nobody reads the other end any more.
Result<void> write_all(int fd, std::string_view text);

// "gpuyard: <message>" on stderr, and what to do next on lines of its own; returns the exit code of
// the error.
int complain(const Error&, std::string_view advice = {});
// Complains of an error; the exit code.
int exit_code_after(const Result<void>& done);
// "gpuyard: <text>" on stderr, where nothing went wrong.
void say(std::string_view text);

// What the environment says of it; empty: nothing.
std::string_view environment_variable(const char* name);

// Commands that are run.

// As exec wants them; the words outlive it.
std::vector<char*> pointers_to(const std::vector<std::string>& words);

// Complains of what `errno` was; the exit code, as a shell says it.
int cannot_run(const std::string& command, int failed);

sigset_t signal_set(std::initializer_list<int> numbers);

// What stands behind stdout: how wide it is, and what it can show.

enum class ColorWish { automatic, always, never };

struct Screen {
  bool terminal = false;
  std::size_t columns = 0;  // 0: no end, as in a file
  std::size_t rows = 0;     // 0: no end
  bool color = false;
  bool utf8 = false;

  static Screen of_stdout(ColorWish = ColorWish::automatic);
  bool holds(std::size_t width) const { return columns == 0 || width <= columns; }
};

enum class Tone { plain, strong, faint, good, busy, warning, bad };

// `text` in that tone, or as it is on a screen without colour.
std::string painted(const Screen&, Tone, std::string_view text);

// A terminal that is drawn anew again and again, and the signals that end or disturb this.

// From its construction on, signals that end the program are answers of wait(). Construct it before
// anything that starts threads: they inherit what is blocked.
class Interruptions {
 public:
  enum class Cause { time_passed, ended, resized, suspended };

  Interruptions();
  Interruptions(Interruptions&&) = delete;

  // Until `deadline` or a signal: SIGINT, SIGTERM, SIGHUP and SIGQUIT end, SIGWINCH resizes,
  // SIGTSTP suspends. A deadline that has passed still tells of a signal that came before.
  Cause wait(TimePoint deadline);

 private:
  UniqueFd signals_;
};

// What SIGTSTP does where nobody has blocked it.
void stop_as_asked();

// Waits for the next tick and does what is asked meanwhile; false: it is over.
bool wait_for_tick(
    Interruptions&, TimePoint next, const std::function<void()>& on_resize = [] {},
    const std::function<void()>& on_suspend = stop_as_asked);

// Draws on the terminal's other screen; the user's own comes back with the destructor.
class LiveScreen {
 public:
  LiveScreen();
  LiveScreen(LiveScreen&&) = delete;
  ~LiveScreen();

  // Replaces what is shown. Lines beyond the last row are cut off.
  static void draw(std::string_view text, std::size_t rows);

  // Gives the screen back, stops this process as the terminal wanted, and takes it again.
  static void suspend();
};

}  // namespace gpuyard::cli
