// Hands notifications to the queues of their sinks. Each sink has one of its own, so that one that
// hangs delays no other. How often and how long a notification is tried, the queue knows
// (sink_queue.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "io/notify/notification.h"
#include "io/notify/sender.h"
#include "io/notify/sink_config.h"

namespace gpuyard::notify {

class SinkQueue;

// The statistics of one sink, without any secret.
struct SinkStats {
  std::string name;
  SinkKind kind = SinkKind::log;
  std::string destination;
  std::size_t queued = 0;  // the one under way included
  std::uint64_t delivered_total = 0;
  std::uint64_t retries_total = 0;
  std::uint64_t dead_letters_total = 0;
  std::optional<WallTime> failing_since;  // the first failure since the last success
  std::optional<std::string> last_error;
  bool closed = false;  // the last error is then SinkConfig::unusable_reason
};

// An alert that still fires, and the sinks that were notified of it.
struct FiringNotification {
  Notification notification;
  std::vector<std::string> sinks;
};

// Thread: io. Calls the DeliveryListener later and on the loop, never within a call.
class SinkDispatcher {
 public:
  struct DeliveryListener {
    std::function<void(const std::string& sink, const std::string& id)> on_delivered;
    // The notification will not be tried again.
    std::function<void(const std::string& sink, const std::string& id, const std::string& why)>
        on_dead_letter;
  };

  SinkDispatcher(Loop&, SenderFactory, DeliveryListener);
  ~SinkDispatcher();
  SinkDispatcher(const SinkDispatcher&) = delete;
  SinkDispatcher& operator=(const SinkDispatcher&) = delete;

  // Replaces the sinks; all or nothing. A sink that stays, by name and kind, keeps its queue and
  // its figures. The notifications that wait for a sink that goes are dead letters. Errc::invalid
  // if there are more than kMaxSinks, or two of one name.
  Result<void> replace(std::vector<SinkConfig>);

  // The names of the sinks that want notifications of that level.
  std::vector<std::string> sink_names_at(NotificationLevel) const;
  // The names of all sinks.
  std::vector<std::string> sink_names() const;

  // Queues the notification, whatever its level, and reports once how that ended, unless this ends
  // first. If there is no sink of that name, the notification is a dead letter. Notifications of
  // one alert arrive in this order.
  void send(const std::string& sink, Notification);

  // Takes all alerts that fire now; called whenever they change. Some sinks resolve an alert unless
  // they are notified of it again and again. The DeliveryListener gets none of these repetitions.
  void set_firing(std::vector<FiringNotification>);

  std::vector<SinkStats> stats() const;

 private:
  Loop& loop_;
  SenderFactory sender_factory_;
  std::shared_ptr<const DeliveryListener> listener_;
  std::map<std::string, std::unique_ptr<SinkQueue>> queues_;
  std::set<std::string> missing_sinks_;  // that the log has named
  std::vector<FiringNotification> firing_;
};

}  // namespace gpuyard::notify
