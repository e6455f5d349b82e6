#include "cli/lease/claim_waiter.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "cli/lease/lease_text.h"
#include "cli/read/source_access.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/output.h"
#include "cli/screen/screen.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {
namespace {

using State = gpuyard::lease::LeaseState;
using ClaimEventKind = client::ClaimEvent::Kind;

// Until the one line without a terminal.
constexpr Duration kFirstMessageDelay = std::chrono::seconds(10);
constexpr Duration kClockPollInterval = std::chrono::seconds(1);  // between readings of the clock
constexpr char kClearLineStart[] = "\r\x1b[K";

std::size_t columns_of_stderr() {
  constexpr std::size_t kDefaultColumns = 80;
  winsize size{};
  static_cast<void>(::ioctl(STDERR_FILENO, TIOCGWINSZ, &size));
  return size.ws_col > 1 ? size.ws_col : kDefaultColumns;
}

}  // namespace

ProgressLine::ProgressLine(bool quiet)
    : quiet_(quiet), is_terminal_(::isatty(STDERR_FILENO) == 1), began_at_(BootClock::now()) {}

// In the background the terminal belongs to another job: a shell's, an editor's.
bool ProgressLine::has_terminal() const {
  return is_terminal_ && ::tcgetpgrp(STDERR_FILENO) == ::getpgrp();
}

void ProgressLine::show(const std::string& text) {
  if (quiet_) return;
  if (has_terminal()) {
    const bool utf8 = Screen::of_stdout().utf8;
    // The last column stays free: a character there would begin a new line.
    print_stderr(kClearLineStart + Printable(truncate_text(printable("gpuyard: " + text),
                                                           columns_of_stderr() - 1, utf8)));
    shown_ = true;
  } else if (!is_terminal_ && !shown_ && BootClock::now() - began_at_ >= kFirstMessageDelay) {
    print_note(text);
    shown_ = true;
  }
}

void ProgressLine::clear() {
  if (has_terminal() && std::exchange(shown_, false)) print_stderr(kClearLineStart);
}

std::optional<TimePoint> ProgressLine::next_redraw() const {
  if (quiet_ || is_terminal_ || shown_) return std::nullopt;
  return began_at_ + kFirstMessageDelay;
}

ClaimWaiter::ClaimWaiter(const http::Endpoint& daemon, protocol::LeaseRequest request,
                         std::string queue_command, const JobSignals& signals, bool quiet)
    : daemon_(daemon),
      request_(std::move(request)),
      queue_command_(std::move(queue_command)),
      signals_(signals),
      began_at_(BootClock::now()),
      progress_line_(quiet),
      follower_(daemon_, request_) {}

ClaimResult ClaimWaiter::wait() {
  for (;;) {
    if (auto end = handle_signals()) return *std::move(end);
    for (client::ClaimEvent& event : follower_.pop_events()) {
      if (auto end = on_event(std::move(event))) return *std::move(end);
    }
    if (has_timed_out()) return fail(*disconnect_error_);
    redraw();
    std::array<pollfd, 2> polled{pollfd{signals_.descriptor(), POLLIN, 0},
                                 pollfd{follower_.descriptor(), POLLIN, 0}};
    const bool clock_matters =
        progress_line_.next_redraw() || (disconnect_error_ && request_.wait_s);
    ::poll(polled.data(), polled.size(),
           clock_matters ? static_cast<int>(to_milliseconds(kClockPollInterval)) : -1);
  }
}

std::optional<ClaimResult> ClaimWaiter::on_event(client::ClaimEvent event) {
  switch (event.kind) {
    case ClaimEventKind::away:
      disconnect_error_ = std::move(event.error);
      return std::nullopt;
    case ClaimEventKind::back:
      disconnect_error_.reset();
      return std::nullopt;
    case ClaimEventKind::alert:
      return std::nullopt;  // about GPUs whose grant has not arrived yet
    case ClaimEventKind::refused:
      return fail(event.error);
    case ClaimEventKind::resubmitted:
      progress_line_.clear();
      print_note("the daemon lost this claim; it was submitted again and is now last in the queue");
      return std::nullopt;
    case ClaimEventKind::changed:
      break;
  }
  if (event.lease.place) position_ = event.lease.place;
  last_ = std::move(event.lease);
  if (last_->state == State::waiting) return std::nullopt;
  progress_line_.clear();
  if (last_->state == State::held) return *last_;
  return print_error(claim_error(*last_, position_, queue_command_));
}

std::optional<ClaimResult> ClaimWaiter::handle_signals() {
  while (const auto signal = signals_.take()) {
    if (is_termination_signal(signal->number)) return cancel(*signal);
    if (signal->number == SIGTSTP) {
      progress_line_.clear();
      suspend_job(false);  // the terminal signalled the rest of the job itself
    }
  }
  return std::nullopt;
}

ClaimResult ClaimWaiter::cancel(const JobSignal& signal) {
  progress_line_.clear();
  protocol::ReleaseQuery query;
  query.lease = request_.id.value_or("");
  const auto reply = client::call(daemon_, protocol::kRelease, query);
  // Not found: the daemon did not know the claim yet, or the claim is over.
  if (!reply && reply.error().code != Errc::not_found) {
    print_error(Error(reply.error()).in("cancelling the claim"));
    print_note("the daemon will cancel it by itself shortly");
  }
  if (signal.number == SIGINT && signal.from_terminal) exit_by_sigint(false);
  return kExitSignalBase + signal.number;
}

ClaimResult ClaimWaiter::fail(const Error& error) {
  progress_line_.clear();
  return print_source_error(error);
}

void ClaimWaiter::redraw() {
  if (disconnect_error_) {
    progress_line_.show(disconnect_error_->message + "; retrying");
  } else if (last_) {
    progress_line_.show(waiting_text(*last_));
  }
}

// While the daemon is there, it counts the time itself.
bool ClaimWaiter::has_timed_out() const {
  if (!disconnect_error_ || !request_.wait_s) return false;
  return BootClock::now() - began_at_ > std::chrono::duration<double>(*request_.wait_s);
}

}  // namespace gpuyard::cli
