// A terminal that is drawn anew again and again, and the signals that end or disturb this.
#pragma once

#include <functional>
#include <string_view>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace gpuyard::cli {

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
