#include "io/notify/sink_dispatcher.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "io/notify/sink_queue.h"

namespace gpuyard::notify {
namespace {

Result<void> check(const std::vector<SinkConfig>& sinks) {
  if (sinks.size() > kMostSinks) {
    return Error{Errc::invalid,
                 fmt::format("{} sinks exceed the maximum of {}: let one of them forward alerts",
                             sinks.size(), kMostSinks)};
  }
  std::set<std::string> names;
  for (const SinkConfig& sink : sinks) {
    if (names.insert(sink.name).second) continue;
    return Error{Errc::invalid, fmt::format("two sinks have the name {}", sink.name)};
  }
  return {};
}

std::vector<Notice> told_to(const std::string& sink,
                            const std::vector<FiringNotification>& firing) {
  std::vector<Notice> told;
  for (const FiringNotification& one : firing) {
    if (std::ranges::find(one.sinks, sink) != one.sinks.end()) told.push_back(one.notice);
  }
  return told;
}

}  // namespace

Outlets::Outlets(Loop& loop, MakeSender make_sender, Told told)
    : loop_(loop),
      make_sender_(std::move(make_sender)),
      told_(std::make_shared<const Told>(std::move(told))) {}

Outlets::~Outlets() = default;

Result<void> Outlets::replace(std::vector<SinkConfig> sinks) {
  if (auto fine = check(sinks); !fine) return fine;
  auto former = std::exchange(queues_, {});
  missed_.clear();
  for (SinkConfig& sink : sinks) {
    auto& queue = queues_[sink.name];
    const auto same = former.find(sink.name);
    if (same != former.end() && same->second->config().kind == sink.kind) {
      queue = std::move(same->second);
      former.erase(same);
    }
    if (queue != nullptr && queue->config() == sink) continue;
    auto sender = make_sender_(sink);
    if (queue != nullptr) {
      queue->configure(std::move(sink), std::move(sender));
    } else {
      queue = std::make_unique<SinkQueue>(loop_, std::move(sink), std::move(sender), told_);
    }
  }
  for (const auto& [name, queue] : former) {
    queue->close(fmt::format("the sink {} no longer exists", name));
  }
  still_firing(std::exchange(firing_, {}));
  return {};
}

std::vector<std::string> Outlets::names_for(Level level) const {
  std::vector<std::string> names;
  for (const auto& [name, queue] : queues_) {
    if (level >= queue->config().min_level) names.push_back(name);
  }
  return names;
}

std::vector<std::string> Outlets::names() const {
  return names_for(Level::critical);
}

void Outlets::send(const std::string& sink, Notice notice) {
  if (const auto queue = queues_.find(sink); queue != queues_.end()) {
    return queue->second->push(std::move(notice));
  }
  if (missed_.insert(sink).second) {
    log::error(
        "Sink {}: a notification of alert {} was dropped because the sink no longer exists; others "
        "queued for it are dropped as well",
        sink, notice.key);
  }
  loop_.post([told = std::weak_ptr(told_), sink, id = notice.id] {
    const auto still = told.lock();
    if (still) still->dead(sink, id, fmt::format("unknown sink {}", sink));
  });
}

void Outlets::still_firing(std::vector<FiringNotification> firing) {
  firing_ = std::move(firing);
  for (const auto& [name, queue] : queues_) {
    if (takes_several(queue->config().kind)) queue->repeat(told_to(name, firing_));
  }
}

std::vector<SinkFigures> Outlets::figures() const {
  std::vector<SinkFigures> all;
  for (const auto& [name, queue] : queues_) all.push_back(queue->figures());
  return all;
}

}  // namespace gpuyard::notify
