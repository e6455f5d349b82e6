#include "cli/lease/claim_waiter.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "cli/lease/lease_text.h"
#include "cli/read/source_access.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/terminal.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {
namespace {

using State = gpuyard::lease::State;
using NewsKind = client::ClaimEvent::Kind;

constexpr Duration kSayAfter = std::chrono::seconds(10);  // until the one line without a terminal
constexpr Duration kLook = std::chrono::seconds(1);       // between looks at the clock
constexpr char kBeginOfLine[] = "\r\x1b[K";

std::size_t columns_of_stderr() {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  static_cast<void>(::ioctl(STDERR_FILENO, TIOCGWINSZ, &size));
  return size.ws_col > 1 ? size.ws_col : kUsual;
}

}  // namespace

ProgressLine::ProgressLine(bool quiet)
    : quiet_(quiet), terminal_(::isatty(STDERR_FILENO) == 1), began_(BootClock::now()) {}

// In the background the terminal belongs to another job: a shell's, an editor's.
bool ProgressLine::has_terminal() const {
  return terminal_ && ::tcgetpgrp(STDERR_FILENO) == ::getpgrp();
}

void ProgressLine::show(const std::string& text) {
  if (quiet_) return;
  if (has_terminal()) {
    const bool utf8 = Screen::of_stdout().utf8;
    // The last column stays free: a character there would begin a new line.
    print_error(kBeginOfLine +
                Printable(cut_to(printable("gpuyard: " + text), columns_of_stderr() - 1, utf8)));
    shown_ = true;
  } else if (!terminal_ && !shown_ && BootClock::now() - began_ >= kSayAfter) {
    say(text);
    shown_ = true;
  }
}

void ProgressLine::clear() {
  if (has_terminal() && std::exchange(shown_, false)) print_error(kBeginOfLine);
}

std::optional<TimePoint> ProgressLine::due() const {
  if (quiet_ || terminal_ || shown_) return std::nullopt;
  return began_ + kSayAfter;
}

Claiming::Claiming(const http::Endpoint& daemon, protocol::LeaseWish wish, std::string in_queue,
                   const JobSignals& signals, bool quiet)
    : daemon_(daemon),
      wish_(std::move(wish)),
      in_queue_(std::move(in_queue)),
      signals_(signals),
      began_(BootClock::now()),
      line_(quiet),
      feed_(daemon_, wish_) {}

Claimed Claiming::wait() {
  for (;;) {
    if (auto end = take_signals()) return *std::move(end);
    for (client::ClaimEvent& news : feed_.take()) {
      if (auto end = hear(std::move(news))) return *std::move(end);
    }
    if (ran_out()) return fail(*away_);
    redraw();
    std::array<pollfd, 2> polled{pollfd{signals_.descriptor(), POLLIN, 0},
                                 pollfd{feed_.descriptor(), POLLIN, 0}};
    const bool clock_matters = line_.due() || (away_ && wish_.wait_s);
    ::poll(polled.data(), polled.size(),
           clock_matters ? static_cast<int>(to_milliseconds(kLook)) : -1);
  }
}

std::optional<Claimed> Claiming::hear(client::ClaimEvent news) {
  switch (news.kind) {
    case NewsKind::away:
      away_ = std::move(news.error);
      return std::nullopt;
    case NewsKind::back:
      away_.reset();
      return std::nullopt;
    case NewsKind::alert:
      return std::nullopt;  // about GPUs whose grant is not heard yet
    case NewsKind::refused:
      return fail(news.error);
    case NewsKind::anew:
      line_.clear();
      say("the daemon lost this claim; it was submitted again and is now last in the queue");
      return std::nullopt;
    case NewsKind::changed:
      break;
  }
  if (news.lease.place) place_ = news.lease.place;
  last_ = std::move(news.lease);
  if (last_->state == State::waiting) return std::nullopt;
  line_.clear();
  if (last_->state == State::held) return *last_;
  return complain(unmet(*last_, place_, in_queue_));
}

std::optional<Claimed> Claiming::take_signals() {
  while (const auto signal = signals_.take()) {
    if (asks_to_end(signal->number)) return cancel(*signal);
    if (signal->number == SIGTSTP) {
      line_.clear();
      stop_as_terminal_does(false);  // the terminal told the rest of the job itself
    }
  }
  return std::nullopt;
}

Claimed Claiming::cancel(const JobSignal& signal) {
  line_.clear();
  protocol::ReleaseQuery query;
  query.lease = wish_.id.value_or("");
  const auto answer = client::call(daemon_, protocol::kRelease, query);
  // Not found: the daemon had not heard of the claim yet, or the claim is over.
  if (!answer && answer.error().code != Errc::not_found) {
    complain(Error(answer.error()).in("cancelling the claim"));
    say("the daemon will cancel it by itself shortly");
  }
  if (signal.number == SIGINT && signal.from_terminal) end_as_interrupted(false);
  return kSignalled + signal.number;
}

Claimed Claiming::fail(const Error& error) {
  line_.clear();
  return complain_about_source(error);
}

void Claiming::redraw() {
  if (away_) {
    line_.show(away_->message + "; retrying");
  } else if (last_) {
    line_.show(waiting_text(*last_));
  }
}

// While the daemon is there, it counts the time itself.
bool Claiming::ran_out() const {
  if (!away_ || !wish_.wait_s) return false;
  return BootClock::now() - began_ > std::chrono::duration<double>(*wish_.wait_s);
}

}  // namespace gpuyard::cli
