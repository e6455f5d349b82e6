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
#include "protocol/alerts.h"
#include "protocol/leases.h"

namespace gpuyard::client {

struct ClaimNews {
  enum class Kind : std::uint8_t {
    changed,  // the lease is now so
    away,     // the daemon does not answer; it is asked again until it does
    back,
    alert,    // something is wrong with a GPU of the lease, worse than it was, or over
    anew,     // the daemon had lost the claim; it was made again, behind all others
    refused,  // the end: there is no such claim any more, or there never was a daemon
  };
  Kind kind = Kind::changed;
  protocol::Lease lease = {};  // of `changed`
  Error error = {};            // of `away` and `refused`
  protocol::Alert alert = {};  // of `alert`
};

// Whoever has it is there for the daemon: without it a claim loses its place after a while. Its end
// gives up nothing by itself.
class ClaimFeed {
 public:
  // Makes the claim. `wish` has an id, by which it is made again after an interruption. A daemon
  // that is there and has not found its feet is given 10 s.
  ClaimFeed(http::Endpoint, protocol::LeaseWish wish);
  ClaimFeed(const ClaimFeed&) = delete;
  ClaimFeed& operator=(const ClaimFeed&) = delete;
  ~ClaimFeed();

  // Readable while there is news.
  int descriptor() const { return bell_.get(); }
  static constexpr std::size_t kMostNews = 1000;  // of alerts, for one who does not listen

  // All there is now, in order.
  std::vector<ClaimNews> take();

 private:
  void follow(const std::stop_token&);
  // Ok: nothing more will come. Errc::unavailable and the like: to be asked again.
  Result<void> stream(const std::stop_token&);
  void take_alert(std::string_view data);
  Result<void> poll(const std::stop_token&);
  Result<protocol::LeaseAnswer> ask();
  http::ClientRequest request() const;
  bool is_patient(const Error&) const;
  Error broken_off(const Error&) const;
  // Whether it is over with that.
  bool changed(protocol::Lease);
  void give_up_another();
  void tell(ClaimNews);
  void pause(const std::stop_token&, Duration);

  http::Endpoint daemon_;
  protocol::LeaseWish wish_;
  UniqueFd bell_;
  // The thread's own.
  TimePoint began_;
  bool there_ = false;  // a daemon has said something, even if it is that it cannot answer
  bool heard_ = false;  // it has answered
  bool away_ = false;
  bool granted_ = false;
  std::string asked_;  // when the claim was made, as the daemon says: another moment, another claim
  std::mutex mutex_;   // of what follows
  std::vector<ClaimNews> news_;
  std::condition_variable_any paused_;
  std::jthread thread_;  // ends before all it uses
};

}  // namespace gpuyard::client
