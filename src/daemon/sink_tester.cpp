#include "daemon/sink_tester.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/identifiers.h"

namespace gpuyard::daemon {

void SinkTester::begin(const std::vector<std::string>& sinks,
                       const std::function<notify::Notification(std::string id)>& make_notification,
                       api::AlertSinks::OnTested on_tested) {
  if (tests_.size() == kMaxTests) {
    return loop_.post([on_tested = std::move(on_tested)] {
      on_tested(Error{Errc::busy, "too many sink tests are in progress; try again in a moment"});
    });
  }
  const std::uint64_t number = next_++;
  Test& test = tests_[number];
  test.began_at = loop_.now();
  test.on_tested = std::move(on_tested);
  test.timeout_timer =
      loop_.call_after(protocol::kSinkTestTimeout, [this, number] { end(number); });
  for (const std::string& sink : sinks) {
    const std::string id = new_id();
    test.open_ids.emplace(id, test.sinks.size());
    test.sinks.push_back({sink, false, 0, "not delivered yet; delivery will be retried"});
    dispatcher_.send(sink, make_notification(id));
  }
}

bool SinkTester::on_delivery(const std::string& id, std::optional<std::string> why) {
  for (auto& [number, test] : tests_) {
    const auto found = test.open_ids.find(id);
    if (found == test.open_ids.end()) continue;
    protocol::SinkTest& sink = test.sinks[found->second];
    sink.delivered = !why;
    sink.why = std::move(why);
    sink.seconds = std::chrono::duration<double>(loop_.now() - test.began_at).count();
    test.open_ids.erase(found);
    if (test.open_ids.empty()) end(number);
    return true;
  }
  return false;
}

void SinkTester::end(std::uint64_t number) {
  Test test = std::move(tests_.extract(number).mapped());
  const auto stats = dispatcher_.stats();
  for (const auto& [id, index] : test.open_ids) {
    protocol::SinkTest& sink = test.sinks[index];
    sink.seconds = std::chrono::duration<double>(loop_.now() - test.began_at).count();
    const auto one = std::ranges::find(stats, sink.sink, &notify::SinkStats::name);
    if (one != stats.end() && one->last_error) sink.why = one->last_error;
  }
  test.on_tested(std::move(test.sinks));
}

}  // namespace gpuyard::daemon
