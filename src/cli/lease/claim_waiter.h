// Waits for GPUs: shows the wait, and gives up the claim on a signal.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/lease/job_signals.h"
#include "faces/client/claim_follower.h"
#include "faces/protocol/leases.h"

namespace gpuyard::cli {

// Shows a wait on stderr. On a terminal it rewrites one line; elsewhere it writes one line after
// 10 s.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const std::string& text);
  void clear();
  // When to call show() again without an event; empty: never.
  std::optional<TimePoint> next_redraw() const;

 private:
  bool has_terminal() const;

  bool quiet_;
  bool is_terminal_;
  bool shown_ = false;
  TimePoint began_at_;
};

// The lease that is held, or the exit code after the reason was printed.
using ClaimResult = std::variant<protocol::Lease, int>;

class ClaimWaiter {
 public:
  // `request` has an id; `queue_command` is a command that makes the same claim and waits. The
  // references outlive this object.
  ClaimWaiter(const http::Endpoint&, protocol::LeaseRequest request, std::string queue_command,
              const JobSignals&, bool quiet);

  // Waits for the grant. A signal that asks to end gives up the claim and waits for the answer.
  ClaimResult wait();
  // The follower goes on after the grant: it reports what becomes of the lease.
  client::ClaimFollower& follower() { return follower_; }

 private:
  std::optional<ClaimResult> on_event(client::ClaimEvent);
  std::optional<ClaimResult> handle_signals();
  ClaimResult cancel(const JobSignal&);
  ClaimResult fail(const Error&);
  void redraw();
  bool has_timed_out() const;

  const http::Endpoint& daemon_;
  protocol::LeaseRequest request_;
  std::string queue_command_;
  const JobSignals& signals_;
  TimePoint began_at_;
  std::optional<protocol::Lease> last_;
  std::optional<protocol::QueuePosition> position_;
  std::optional<Error> disconnect_error_;
  ProgressLine progress_line_;
  client::ClaimFollower follower_;
};

}  // namespace gpuyard::cli
