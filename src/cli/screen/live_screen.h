// A terminal that is redrawn again and again, and the signals that end or disturb it.
#pragma once

#include <termios.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "cli/screen/printable.h"

namespace gpuyard::cli {

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
