// A command on GPUs that are its own: from the grant of its lease to the lease's end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/client/claim_feed.h"
#include "cli/lease/job.h"
#include "cli/read/answers.h"
#include "cli/verbs.h"
#include "protocol/leases.h"

namespace gpuyard::cli {

// `{uuids}` and `{indices}` stand for the lease's GPUs.
std::vector<std::string> with_gpus(std::vector<std::string> words,
                                   const std::vector<protocol::LeasedGpu>&);

// What the command finds in its environment.
Job::Variables variables_of(const protocol::Lease&, const http::Endpoint&);

class LeasedRun {
 public:
  // These outlive it. `lease` is held; `summary` is where it is written to as JSON, or nothing.
  LeasedRun(const RunVerb&, const http::Endpoint&, const JobSignals&, client::ClaimFeed&,
            protocol::Lease lease, const UniqueFd& summary);

  // The command, and the lease's end; the exit code.
  int run();

 private:
  // Nothing: the command runs. Else its exit code, and why it never did was said.
  std::optional<int> start();
  Result<void> limit_power();
  // Asks a daemon that is away again and again, for 30 s; a signal that asks us to end ends that.
  template <class Ask>
  auto insist(Ask ask) -> decltype(ask());
  Result<void> register_command();
  JobEnd wait();
  void hear(const client::ClaimNews&);
  void remark_alert(const protocol::Alert&);
  // The lease as it was when it ended, as far as somebody says.
  void release();
  // Until its last moments are counted, as far as that comes soon.
  void wait_for_its_use();
  void say_summary() const;
  void write_summary(int exit_code) const;
  void remark(const std::string&);

  const RunVerb& verb_;
  const http::Endpoint& daemon_;
  const JobSignals& signals_;
  client::ClaimFeed& feed_;
  protocol::Lease lease_;
  const UniqueFd& summary_;
  bool simulated_ = false;
  bool lost_ = false;                     // somebody else ended it
  std::optional<JobSignal> told_to_end_;  // ourselves, not the command
  std::optional<Job> job_;
  TimePoint began_;
  double seconds_ = 0;
  std::vector<LeftBehind> left_;
  std::vector<std::string> notes_;
};

}  // namespace gpuyard::cli
