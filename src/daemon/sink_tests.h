// Tests of sinks that somebody waits for.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/alert_sinks.h"
#include "base/loop.h"
#include "notify/outlets.h"

namespace gpuyard::daemon {

class SinkTests {
 public:
  static constexpr std::size_t kMost = 16;  // at a time

  // These outlive it.
  SinkTests(Loop& loop, notify::Outlets& outlets) : loop_(loop), outlets_(outlets) {}
  SinkTests(const SinkTests&) = delete;
  SinkTests& operator=(const SinkTests&) = delete;

  // Sends what notice() makes to each of the sinks, and answers when all have taken it or
  // protocol::kSinkTestPatience has passed.
  void begin(const std::vector<std::string>& sinks,
             const std::function<notify::Notice(std::string id)>& notice, api::AlertSinks::Tested);
  // Whether that notice was a test.
  bool heard(const std::string& id, std::optional<std::string> why);

 private:
  struct Test {
    std::vector<protocol::SinkTest> sinks;
    std::map<std::string, std::size_t> open;  // ids, and the place of their sink
    TimePoint began;
    api::AlertSinks::Tested tested;
    Subscription deadline;
  };

  void end(std::uint64_t number);

  Loop& loop_;
  notify::Outlets& outlets_;
  std::map<std::uint64_t, Test> tests_;
  std::uint64_t next_ = 0;
};

}  // namespace gpuyard::daemon
