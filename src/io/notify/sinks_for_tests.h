// A dispatcher over sinks that answer as a test says, with time moved by hand.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/lifetime.h"
#include "base/manual_loop_for_tests.h"
#include "io/notify/notification_for_tests.h"
#include "io/notify/sink_dispatcher.h"

namespace gpuyard::notify {

// Records the tries of one sink's senders.
struct FakeSink {
  std::vector<std::string> tries;                             // ids; of several "a+b"
  std::vector<TimePoint> when;                                // the same
  std::function<SendResult(const std::string& ids)> answers;  // none: it hangs
  std::vector<Sender::OnDone> hanging;
};

class FakeSender final : public Sender {
 public:
  FakeSender(Loop& loop, FakeSink& sink) : loop_(loop), sink_(sink) {}

  void send(std::vector<Notification> notices, OnDone done) override {
    std::string ids;
    for (const Notification& notice : notices) ids += (ids.empty() ? "" : "+") + notice.id;
    sink_.tries.push_back(ids);
    sink_.when.push_back(loop_.now());
    if (!sink_.answers) return sink_.hanging.push_back(lifetime_.guard(std::move(done)));
    loop_.post(
        [done = lifetime_.guard(std::move(done)), outcome = sink_.answers(ids)] { done(outcome); });
  }

 private:
  Loop& loop_;
  FakeSink& sink_;
  Lifetime lifetime_;
};

inline SinkConfig webhook_named(std::string name) {
  SinkConfig sink;
  sink.name = std::move(name);
  sink.kind = SinkKind::webhook;
  sink.url = *parse_url("https://example.org/hook");
  sink.rate_per_minute = 6000;
  return sink;
}

struct FakeSinks {
  FakeSinks() = default;
  explicit FakeSinks(std::vector<SinkConfig> configs) { reload(std::move(configs)); }

  void reload(std::vector<SinkConfig> configs) {
    const auto done = dispatcher.replace(std::move(configs));
    if (!done) reports.push_back(done.error().text());
  }
  SinkStats figures(const std::string& sink) const {
    for (const SinkStats& one : dispatcher.stats()) {
      if (one.name == sink) return one;
    }
    return {};
  }

  ManualLoop loop;
  std::map<std::string, FakeSink> sinks;
  std::vector<std::string> reports;
  SinkDispatcher dispatcher{
      loop,
      [this](const SinkConfig& sink) {
        return std::make_unique<FakeSender>(loop, sinks[sink.name]);
      },
      {.on_delivered = [this](const std::string& sink,
                              const std::string& id) { reports.push_back(sink + " has " + id); },
       .on_dead_letter =
           [this](const std::string& sink, const std::string& id, const std::string& why) {
             reports.push_back(fmt::format("{} never gets {}: {}", sink, id, why));
           }}};
};

inline SendResult takes(const std::string&) {
  return SendResult::delivered();
}
inline SendResult fails(const std::string&) {
  return SendResult::retry_later("no answer");
}

}  // namespace gpuyard::notify
