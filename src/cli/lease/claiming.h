// Waiting for GPUs where somebody may look on and lose patience.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/client/claim_feed.h"
#include "cli/lease/job.h"
#include "protocol/leases.h"

namespace gpuyard::cli {

// What is said of a wait on stderr: one line that is rewritten where that is a terminal; elsewhere
// one after a while.
class WaitingLine {
 public:
  explicit WaitingLine(bool quiet);
  ~WaitingLine() { clear(); }
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;

  void show(const std::string& text);
  void clear();
  // When it wants to be shown again; empty: not by itself.
  std::optional<TimePoint> due() const;

 private:
  bool has_terminal() const;

  bool quiet_;
  bool terminal_;
  bool shown_ = false;
  TimePoint began_;
};

// What was asked for is there, or the exit code: why was said.
using Claimed = std::variant<protocol::Lease, int>;

class Claiming {
 public:
  // `wish` has an id. These outlive it.
  Claiming(const http::Endpoint&, protocol::LeaseWish wish, const JobSignals&, bool quiet);

  // Whoever is asked to end meanwhile gives up the claim, and waits for the answer.
  Claimed wait();
  // It goes on: what becomes of the lease.
  client::ClaimFeed& feed() { return feed_; }

 private:
  std::optional<Claimed> hear(client::ClaimNews);
  std::optional<Claimed> take_signals();
  Claimed cancel(const JobSignal&);
  Claimed fail(const Error&);
  void redraw();
  bool ran_out() const;

  const http::Endpoint& daemon_;
  protocol::LeaseWish wish_;
  const JobSignals& signals_;
  TimePoint began_;
  std::optional<protocol::Lease> last_;
  std::optional<protocol::LeasePlace> place_;
  std::optional<Error> away_;
  WaitingLine line_;
  client::ClaimFeed feed_;
};

}  // namespace gpuyard::cli
