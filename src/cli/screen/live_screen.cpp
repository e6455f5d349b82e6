#include "cli/screen/live_screen.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string>

#include "cli/screen/terminal.h"

namespace gpuyard::cli {
namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";  // other screen, no cursor
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view kHome = "\x1b[H";
constexpr std::string_view kClearLine = "\x1b[K";
constexpr std::string_view kClearBelow = "\x1b[J";

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP};

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kSignals) sigaddset(&set, number);
  return set;
}

}  // namespace

Interruptions::Interruptions() {
  const sigset_t set = watched_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

Interruptions::Cause Interruptions::wait(TimePoint deadline) {
  while (true) {
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      const auto number = static_cast<int>(info.ssi_signo);
      if (number == SIGWINCH) return Cause::resized;
      return number == SIGTSTP ? Cause::suspended : Cause::ended;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - BootClock::now());
    if (left.count() <= 0) return Cause::time_passed;
    pollfd polled{signals_.get(), POLLIN, 0};
    // A deadline beyond an int is waited for in pieces.
    constexpr std::int64_t kMostAtOnce = 60'000;
    ::poll(&polled, 1, static_cast<int>(std::min<std::int64_t>(left.count(), kMostAtOnce)));
  }
}

void stop_as_asked() {
  ::raise(SIGSTOP);
}

bool wait_for_tick(Interruptions& interruptions, TimePoint next,
                   const std::function<void()>& on_resize,
                   const std::function<void()>& on_suspend) {
  while (true) {
    switch (interruptions.wait(next)) {
      case Interruptions::Cause::time_passed:
        return true;
      case Interruptions::Cause::ended:
        return false;
      case Interruptions::Cause::resized:
        on_resize();
        break;
      case Interruptions::Cause::suspended:
        on_suspend();
        break;
    }
  }
}

LiveScreen::LiveScreen() {
  print(kEnter);
}

LiveScreen::~LiveScreen() {
  static_cast<void>(try_print(kLeave).ok());  // the terminal may be gone
}

void LiveScreen::draw(std::string_view text, std::size_t rows) {
  std::string out(kHome);
  for (std::size_t row = 0; row < rows && !text.empty(); ++row) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += text.substr(0, end);
    out += kClearLine;
    text.remove_prefix(std::min(end + 1, text.size()));
    // A newline at the very end of the last row would scroll.
    if (row + 1 < rows) out += "\r\n";
  }
  print(out.append(kClearBelow));
}

void LiveScreen::suspend() {
  print(kLeave);
  stop_as_asked();
  print(kEnter);
}

}  // namespace gpuyard::cli
