// Follows a claim of GPUs at a daemon in a thread of its own, also across restarts of the daemon.
// Knows no terminal and no command.
#pragma once

#include <condition_variable>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "faces/protocol/alerts.h"
#include "faces/protocol/leases.h"
#include "io/http/client.h"
#include "io/http/endpoint.h"

namespace gpuyard::client {

struct ClaimEvent {
  enum class Kind : std::uint8_t {
    changed,  // `lease` is the new state
    away,     // the daemon does not answer; it is called again until it does
    back,
    alert,        // something is wrong with a GPU of the lease, worse than it was, or over
    resubmitted,  // the daemon had lost the claim; it was made again, behind all others
    refused,      // the end: the claim is gone, or there never was a daemon
  };
  Kind kind = Kind::changed;
  protocol::Lease lease = {};  // of `changed`
  Error error = {};            // of `away` and `refused`
  protocol::Alert alert = {};  // of `alert`
};

// Keeps the claim alive: without a follower the claim loses its queue position after a while. The
// destructor releases nothing. Thread: any.
class ClaimFollower {
 public:
  // Makes the claim. REQUIRES: `request` has an id, by which the claim is made again after an
  // interruption. A daemon that is there but not ready yet is given 30 s.
  ClaimFollower(http::Endpoint, protocol::LeaseRequest request);
  ClaimFollower(const ClaimFollower&) = delete;
  ClaimFollower& operator=(const ClaimFollower&) = delete;
  ~ClaimFollower();

  // Readable while there are events.
  int descriptor() const { return wakeup_.get(); }
  // Further alerts are dropped until pop_events().
  static constexpr std::size_t kMaxQueuedEvents = 1000;

  // Returns all events so far, in order.
  std::vector<ClaimEvent> pop_events();

 private:
  void follow(const std::stop_token&);
  // Returns success if no more events will come. Errc::unavailable and the like: try again.
  Result<void> stream(const std::stop_token&);
  void on_alert(std::string_view data);
  Result<void> poll(const std::stop_token&);
  Result<protocol::LeaseAnswer> submit_claim();
  http::ClientRequest http_request() const;
  bool should_retry(const Error&) const;
  Error disconnect_error(const Error&) const;
  // Returns whether the claim is over.
  bool on_lease(protocol::Lease);
  void release_orphan_claim();
  void push_event(ClaimEvent);
  void pause(const std::stop_token&, Duration);

  http::Endpoint daemon_;
  protocol::LeaseRequest lease_request_;
  UniqueFd wakeup_;
  // Used by the thread alone.
  TimePoint began_at_;
  bool daemon_responded_ = false;  // a daemon has answered, even if only that it is not ready
  bool lease_received_ = false;    // the daemon has sent the lease
  bool disconnected_ = false;
  bool granted_ = false;
  std::optional<WallTime>
      claimed_at_;  // when the claim was made, by the daemon: another time is another claim
  Mutex mutex_;
  std::vector<ClaimEvent> events_ GUARDED_BY(mutex_);
  std::condition_variable_any pause_condition_;
  std::jthread thread_;  // ends before all that it uses
};

}  // namespace gpuyard::client
