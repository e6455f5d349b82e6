#include "daemon/sink_tests.h"

#include <algorithm>

#include "base/new_id.h"

namespace gpuyard::daemon {

void SinkTests::begin(const std::vector<std::string>& sinks,
                      const std::function<notify::Notice(std::string id)>& notice,
                      api::AlertSinks::Tested tested) {
  if (tests_.size() == kMost) {
    return loop_.post([tested = std::move(tested)] {
      tested(Error{Errc::busy, "too many tests of sinks are under way; try again in a moment"});
    });
  }
  const std::uint64_t number = next_++;
  Test& test = tests_[number];
  test.began = loop_.now();
  test.tested = std::move(tested);
  test.deadline = loop_.call_after(protocol::kSinkTestPatience, [this, number] { end(number); });
  for (const std::string& sink : sinks) {
    const std::string id = new_id();
    test.open.emplace(id, test.sinks.size());
    test.sinks.push_back({sink, false, 0, "it has not taken it yet, and is tried again"});
    outlets_.send(sink, notice(id));
  }
}

bool SinkTests::heard(const std::string& id, std::optional<std::string> why) {
  for (auto& [number, test] : tests_) {
    const auto found = test.open.find(id);
    if (found == test.open.end()) continue;
    protocol::SinkTest& sink = test.sinks[found->second];
    sink.delivered = !why;
    sink.why = std::move(why);
    sink.seconds = std::chrono::duration<double>(loop_.now() - test.began).count();
    test.open.erase(found);
    if (test.open.empty()) end(number);
    return true;
  }
  return false;
}

void SinkTests::end(std::uint64_t number) {
  Test test = std::move(tests_.extract(number).mapped());
  const auto figures = outlets_.figures();
  for (const auto& [id, place] : test.open) {
    protocol::SinkTest& sink = test.sinks[place];
    sink.seconds = std::chrono::duration<double>(loop_.now() - test.began).count();
    const auto one = std::ranges::find(figures, sink.sink, &notify::SinkFigures::name);
    if (one != figures.end() && one->last_error) sink.why = one->last_error;
  }
  test.tested(std::move(test.sinks));
}

}  // namespace gpuyard::daemon
