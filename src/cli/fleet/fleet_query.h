// Queries the daemons of many machines at once: the options that name the machines, and the wait
// for their replies.
#pragma once

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/lease/claim_waiter.h"
#include "cli/lease/job_signals.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "faces/fleet/fan_out.h"
#include "faces/fleet/host_list.h"
#include "faces/fleet/view.h"

namespace gpuyard::cli {

// --hosts, --timeout and --no-master, under the heading "Machines".
void add_machine_options(Options sub, MachineOptions&);

// The machines that the user means, and how they are reached.
struct FleetTarget {
  std::vector<fleet::Host> hosts;
  fleet::FanOutOptions options;
};
Result<FleetTarget> fleet_target_of(const MachineOptions&);

// "98 of 100 machines have answered; waiting for n7, n9 ..."
std::string waiting_text(const std::vector<std::string>& pending, std::size_t done,
                         std::size_t all);

// The replies, and the signal that ended the wait for the rest. The threads of the fan-out may
// then wait for seconds yet: they and their ssh end with this process, before this object does.
template <class Answer>
struct FanOutResult {
  std::unique_ptr<fleet::FanOut<Answer>> fan_out;
  fleet::HostReplies<Answer> replies;
  std::optional<JobSignal> end_signal;
};

template <class Answer>
FanOutResult<Answer> fan_out_query(const FleetTarget& target,
                                   typename fleet::FanOut<Answer>::Call query) {
  constexpr auto kProgressDelay = std::chrono::seconds(1);  // until the line names silent hosts
  constexpr std::size_t kMaxNamed = 3;
  const JobSignals signals;  // before any thread
  const TimePoint begin = BootClock::now();
  auto fan_out =
      std::make_unique<fleet::FanOut<Answer>>(target.hosts, target.options, std::move(query));
  ProgressLine line(false);
  while (true) {
    const std::size_t done = fan_out->pool().completed_count();
    const auto signal = signals.take_termination(Duration::zero());
    if (signal || done == target.hosts.size()) {
      auto replies = fan_out->replies();
      return {std::move(fan_out), std::move(replies), signal};
    }
    if (BootClock::now() - begin >= kProgressDelay) {
      line.show(waiting_text(fan_out->pending_hosts(kMaxNamed), done, target.hosts.size()));
    }
    std::array<pollfd, 2> polled{pollfd{fan_out->pool().descriptor(), POLLIN, 0},
                                 pollfd{signals.descriptor(), POLLIN, 0}};
    ::poll(polled.data(), polled.size(), std::chrono::milliseconds(kProgressDelay).count());
  }
}

int exit_by_signal(const JobSignal&);

}  // namespace gpuyard::cli
