#include "io/notify/sink_dispatcher.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/try.h"
#include "io/notify/sink_queue.h"

namespace gpuyard::notify {
namespace {

Result<void> check_sinks(const std::vector<SinkConfig>& sinks) {
  if (sinks.size() > kMaxSinks) {
    return Error{Errc::invalid,
                 fmt::format("{} sinks exceed the maximum of {}: let one of them forward alerts",
                             sinks.size(), kMaxSinks)};
  }
  std::set<std::string> names;
  for (const SinkConfig& sink : sinks) {
    if (names.insert(sink.name).second) continue;
    return Error{Errc::invalid, fmt::format("two sinks have the name {}", sink.name)};
  }
  return {};
}

std::vector<Notification> firing_for_sink(const std::string& sink,
                                          const std::vector<FiringNotification>& firing) {
  std::vector<Notification> notifications;
  for (const FiringNotification& one : firing) {
    if (std::ranges::find(one.sinks, sink) != one.sinks.end())
      notifications.push_back(one.notification);
  }
  return notifications;
}

}  // namespace

SinkDispatcher::SinkDispatcher(Loop& loop, SenderFactory make_sender, DeliveryListener listener)
    : loop_(loop),
      sender_factory_(std::move(make_sender)),
      listener_(std::make_shared<const DeliveryListener>(std::move(listener))) {}

SinkDispatcher::~SinkDispatcher() = default;

Result<void> SinkDispatcher::replace(std::vector<SinkConfig> sinks) {
  GPUYARD_TRY(check_sinks(sinks));
  auto former = std::exchange(queues_, {});
  missing_sinks_.clear();
  for (SinkConfig& sink : sinks) {
    auto& queue = queues_[sink.name];
    const auto same = former.find(sink.name);
    if (same != former.end() && same->second->config().kind == sink.kind) {
      queue = std::move(same->second);
      former.erase(same);
    }
    if (queue != nullptr && queue->config() == sink) continue;
    auto sender = sender_factory_(sink);
    if (queue != nullptr) {
      queue->configure(std::move(sink), std::move(sender));
    } else {
      queue = std::make_unique<SinkQueue>(loop_, std::move(sink), std::move(sender), listener_);
    }
  }
  for (const auto& [name, queue] : former) {
    queue->close(fmt::format("the sink {} no longer exists", name));
  }
  set_firing(std::exchange(firing_, {}));
  return {};
}

std::vector<std::string> SinkDispatcher::sink_names_at(NotificationLevel level) const {
  std::vector<std::string> names;
  for (const auto& [name, queue] : queues_) {
    if (level >= queue->config().min_level) names.push_back(name);
  }
  return names;
}

std::vector<std::string> SinkDispatcher::sink_names() const {
  return sink_names_at(NotificationLevel::critical);
}

void SinkDispatcher::send(const std::string& sink, Notification notification) {
  if (const auto queue = queues_.find(sink); queue != queues_.end()) {
    return queue->second->enqueue(std::move(notification));
  }
  if (missing_sinks_.insert(sink).second) {
    log::error(
        "Sink {}: a notification of alert {} was dropped because the sink no longer exists; others "
        "queued for it are dropped as well",
        sink, notification.key);
  }
  loop_.post([listener = std::weak_ptr(listener_), sink, id = notification.id] {
    const auto still = listener.lock();
    if (still) still->on_dead_letter(sink, id, fmt::format("unknown sink {}", sink));
  });
}

void SinkDispatcher::set_firing(std::vector<FiringNotification> firing) {
  firing_ = std::move(firing);
  for (const auto& [name, queue] : queues_) {
    if (can_batch(queue->config().kind)) queue->set_firing(firing_for_sink(name, firing_));
  }
}

std::vector<SinkStats> SinkDispatcher::stats() const {
  std::vector<SinkStats> all;
  for (const auto& [name, queue] : queues_) all.push_back(queue->stats());
  return all;
}

}  // namespace gpuyard::notify
