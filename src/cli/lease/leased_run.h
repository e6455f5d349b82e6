// Runs a command on leased GPUs, from the grant of the lease to its end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/lease/foreground_job.h"
#include "cli/lease/job_signals.h"
#include "cli/read/json_output.h"
#include "cli/verbs.h"
#include "faces/client/claim_follower.h"
#include "faces/protocol/leases.h"

namespace gpuyard::cli {

// Replaces `{uuids}` and `{indices}` by the lease's GPUs.
std::vector<std::string> substitute_gpus(std::vector<std::string> words,
                                         const std::vector<protocol::LeasedGpu>&);

// Sets the power limit of the lease's GPUs, until the lease ends. `watts` is that of --power-limit;
// empty: does nothing.
Result<void> limit_power(const http::Endpoint&, const protocol::Lease&, const std::string& watts);

// Opens the file of --report; an empty path opens none. Called before the command starts: a missing
// directory is reported then, not after hours.
Result<UniqueFd> open_run_report(const std::string& path);

// Returns the variables that the command finds in its environment.
ForegroundJob::Variables variables_of(const protocol::Lease&, const http::Endpoint&);

class LeasedRun {
 public:
  // The references outlive this object. `lease` is held; `summary` gets the JSON if it is open.
  LeasedRun(const RunVerb&, const http::Endpoint&, const JobSignals&, client::ClaimFollower&,
            protocol::Lease lease, const UniqueFd& summary);

  // Runs the command and ends the lease; returns the exit code.
  int run();

 private:
  // Starts the command. Empty: it runs. Else its exit code, after the reason was printed.
  std::optional<int> start();
  // Repeats `ask` for 30 s while the daemon is away, or until a signal asks us to end.
  template <class Request>
  auto retry_while_away(Request request) -> decltype(request());
  Result<void> register_command();
  JobEnd wait();
  void on_event(const client::ClaimEvent&);
  void add_alert_note(const protocol::Alert&);
  // Releases the lease and keeps it as it was at its end, if the daemon replies.
  void release();
  // Waits until the lease's use is final, for 6 s at most.
  void wait_for_usage();
  void print_summary() const;
  void write_summary(int exit_code) const;
  void add_note(const std::string&);

  const RunVerb& verb_;
  const http::Endpoint& daemon_;
  const JobSignals& signals_;
  client::ClaimFollower& follower_;
  protocol::Lease lease_;
  const UniqueFd& summary_;
  bool simulated_ = false;
  bool lease_lost_ = false;              // it ended, and not by us
  std::optional<JobSignal> end_signal_;  // the signal asked us to end, not the command
  std::optional<ForegroundJob> job_;
  TimePoint began_at_;
  double seconds_ = 0;
  std::vector<OrphanProcess> orphans_;
  std::vector<std::string> notes_;
};

}  // namespace gpuyard::cli
