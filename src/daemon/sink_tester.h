// Sends test notifications to sinks and waits for them on behalf of a client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "faces/api/alert_view.h"
#include "io/notify/sink_dispatcher.h"

namespace gpuyard::daemon {

// Thread: io.
class SinkTester {
 public:
  static constexpr std::size_t kMaxTests = 16;  // at a time

  // The references outlive it.
  SinkTester(Loop& loop, notify::SinkDispatcher& dispatcher)
      : loop_(loop), dispatcher_(dispatcher) {}
  SinkTester(const SinkTester&) = delete;
  SinkTester& operator=(const SinkTester&) = delete;

  // Sends what make_notification() returns to each of the sinks, and replies when all have taken it
  // or protocol::kSinkTestTimeout has passed.
  void begin(const std::vector<std::string>& sinks,
             const std::function<notify::Notification(std::string id)>& make_notification,
             api::AlertSinks::OnTested);
  // Records the end of a delivery. Returns whether it was a test's.
  bool on_delivery(const std::string& id, std::optional<std::string> why);

 private:
  struct Test {
    std::vector<protocol::SinkTest> sinks;
    std::map<std::string, std::size_t> open_ids;  // ids, and the index of their sink
    TimePoint began_at;
    api::AlertSinks::OnTested on_tested;
    Subscription timeout_timer;
  };

  void end(std::uint64_t number);

  Loop& loop_;
  notify::SinkDispatcher& dispatcher_;
  std::map<std::uint64_t, Test> tests_;
  std::uint64_t next_ = 0;
};

}  // namespace gpuyard::daemon
