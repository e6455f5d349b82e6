// What the API asks of whoever carries alerts to people.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "protocol/alerts.h"

namespace gpuyard::api {

class AlertSinks {
 public:
  using Tested = std::function<void(Result<std::vector<protocol::SinkTest>>)>;

  virtual ~AlertSinks() = default;
  virtual std::vector<protocol::Sink> sinks() const = 0;
  // The file that rules and sinks were read from; "": there is none.
  virtual std::string file() const = 0;
  // Says something to one sink, or to all ("") that it is a test, and answers within
  // protocol::kSinkTestPatience, never inside the call. Errors: not_found, busy.
  virtual void test(const std::string& sink, const std::string& by, Tested) = 0;
};

}  // namespace gpuyard::api
