// A claim of GPUs at a daemon, followed by a thread of its own: what becomes of it, also across
// restarts of the daemon. Knows no terminal and no command.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "http/client.h"
#include "http/endpoint.h"
#include "protocol/leases.h"

namespace gpuyard::client {

struct ClaimNews {
  enum class Kind : std::uint8_t {
    changed,  // the lease is now so
    away,     // the daemon does not answer; it is asked again until it does
    back,
    refused,  // the end: there is no such claim, or there never was a daemon
  };
  Kind kind = Kind::changed;
  protocol::Lease lease = {};  // of `changed`
  Error error = {};            // of `away` and `refused`
};

// Whoever has it is there for the daemon: without it a claim loses its place after a while. Its end
// gives up nothing by itself.
class ClaimFeed {
 public:
  // Makes the claim. `wish` has an id, by which it is made again after an interruption.
  ClaimFeed(http::Endpoint, protocol::LeaseWish wish);
  ClaimFeed(const ClaimFeed&) = delete;
  ClaimFeed& operator=(const ClaimFeed&) = delete;
  ~ClaimFeed();

  // Readable while there is news.
  int descriptor() const { return bell_.get(); }
  // All there is now, in order.
  std::vector<ClaimNews> take();

 private:
  void follow(const std::stop_token&);
  // Ok: nothing more will come. Errc::unavailable and the like: to be asked again.
  Result<void> stream(const std::stop_token&);
  Result<void> poll(const std::stop_token&);
  Error broken_off(const Error&) const;
  // Whether it is over with that.
  bool changed(protocol::Lease);
  void tell(ClaimNews);
  void pause(const std::stop_token&, Duration);

  http::Endpoint daemon_;
  protocol::LeaseWish wish_;
  UniqueFd bell_;
  bool heard_ = false;  // the thread's own: the daemon has answered
  bool away_ = false;
  std::mutex mutex_;  // of what follows
  std::vector<ClaimNews> news_;
  std::condition_variable_any paused_;
  std::jthread thread_;  // ends before all it uses
};

}  // namespace gpuyard::client
