// Waits for GPUs: shows the wait, and gives up the claim on a signal.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/lease/foreground_job.h"
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
  // When to call show() again without news; empty: never.
  std::optional<TimePoint> due() const;

 private:
  bool has_terminal() const;

  bool quiet_;
  bool terminal_;
  bool shown_ = false;
  TimePoint began_;
};

// The lease that is held, or the exit code after the reason was printed.
using Claimed = std::variant<protocol::Lease, int>;

class Claiming {
 public:
  // `wish` has an id; `in_queue` is a command that makes the same claim and waits. The references
  // outlive this object.
  Claiming(const http::Endpoint&, protocol::LeaseWish wish, std::string in_queue, const JobSignals&,
           bool quiet);

  // Waits for the grant. A signal that asks to end gives up the claim and waits for the answer.
  Claimed wait();
  // The feed goes on after the grant: it tells what becomes of the lease.
  client::ClaimFollower& feed() { return feed_; }

 private:
  std::optional<Claimed> hear(client::ClaimEvent);
  std::optional<Claimed> take_signals();
  Claimed cancel(const JobSignal&);
  Claimed fail(const Error&);
  void redraw();
  bool ran_out() const;

  const http::Endpoint& daemon_;
  protocol::LeaseWish wish_;
  std::string in_queue_;
  const JobSignals& signals_;
  TimePoint began_;
  std::optional<protocol::Lease> last_;
  std::optional<protocol::LeasePlace> place_;
  std::optional<Error> away_;
  ProgressLine line_;
  client::ClaimFollower feed_;
};

}  // namespace gpuyard::cli
