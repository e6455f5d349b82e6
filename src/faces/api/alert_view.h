// Alerts as the API shows them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/andon/alert_service.h"
#include "faces/protocol/alerts.h"

namespace gpuyard::api {

class EventHub;

protocol::Alert alert_view(const andon::AlertService&, const andon::Alert&);

// Publishes each change of an alert to GET /api/gpu/events, and to the streams of leases, which
// show a holder what is wrong with the lease's GPUs. Thread: io.
class AlertPublisher {
 public:
  using OnAlert = std::function<void(const protocol::Alert&)>;

  // The alerts and the event hub outlive this.
  AlertPublisher(EventHub& events, const andon::AlertService& alerts)
      : events_(events), alerts_(alerts) {}
  AlertPublisher(const AlertPublisher&) = delete;
  AlertPublisher& operator=(const AlertPublisher&) = delete;

  // For andon::AlertService::set_on_change().
  void on_change(const andon::Alert&);
  // Calls the callback at each change of any alert.
  Subscription subscribe(OnAlert);

 private:
  EventHub& events_;
  const andon::AlertService& alerts_;
  std::map<std::uint64_t, OnAlert> subscribers_;
  std::uint64_t next_subscriber_ = 0;
  // A stream may outlive this.
  Lifetime lifetime_;
};

// The API's interface to the component that delivers alerts. Thread: io.
class AlertSinks {
 public:
  using OnTested = std::function<void(Result<std::vector<protocol::SinkTest>>)>;

  virtual ~AlertSinks() = default;
  virtual std::vector<protocol::Sink> sinks() const = 0;
  // Returns the file that rules and sinks were read from; "": there is none.
  virtual std::string file() const = 0;
  // Sends a message that says it is a test to one sink, or to all (""), and answers within
  // protocol::kSinkTestTimeout, never inside the call. Errors: not_found, busy.
  virtual void test(const std::string& sink, const std::string& by, OnTested) = 0;
};

}  // namespace gpuyard::api
