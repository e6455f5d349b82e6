// Polls many daemons for their brief, and keeps the newest status of each: one that is slow or gone
// delays no other. Thread: any.
#pragma once

#include <condition_variable>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "faces/fleet/fan_out.h"

namespace gpuyard::fleet {

// The status of a host. The reply's problem is of the last poll; its answer is the last that came.
struct HostStatus {
  HostReply<protocol::Brief> reply;
  std::optional<TimePoint> replied_at = {};  // nothing: it has never answered
};

class FleetPoller {
 public:
  static constexpr Duration kPollInterval = std::chrono::seconds(2);
  // A host that fails is polled less and less often, down to this: it keeps no thread from the
  // others, and no server takes us for a guesser of passwords.
  static constexpr Duration kMaxPollInterval = std::chrono::seconds(60);
  // With more hosts than this, no connection is kept between two polls: each ssh is a process.
  static constexpr std::size_t kMaxKeptConnections = 256;

  FleetPoller(const std::vector<Host>& hosts, FanOutOptions options);
  // Waits for the polls in flight.
  ~FleetPoller();
  FleetPoller(const FleetPoller&) = delete;
  FleetPoller& operator=(const FleetPoller&) = delete;

  std::vector<HostStatus> statuses() const;

 private:
  struct HostState {
    HostStatus status;
    std::optional<http::Endpoint> endpoint;  // kept, and with it the connection of an ssh
    TimePoint due_at;
    int failures = 0;  // one after another
    bool in_flight = false;
  };

  void run_worker(const std::stop_token&);
  HostState* wait_for_due(const std::stop_token&);
  // Reads the endpoint without the mutex: while a host is in flight, no other thread uses it.
  void poll_host(HostState&);

  const FanOutOptions options_;
  mutable Mutex mutex_;
  std::vector<HostState> hosts_ GUARDED_BY(mutex_);
  std::condition_variable_any due_condition_;
  std::vector<std::jthread> threads_;
};

}  // namespace gpuyard::fleet
