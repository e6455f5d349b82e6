#include "cli/screen/live_screen.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "base/base64.h"
#include "base/log.h"
#include "cli/screen/output.h"

namespace gpuyard::cli {
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
