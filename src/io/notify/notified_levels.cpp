#include "io/notify/notified_levels.h"

#include <iterator>
#include <utility>

namespace gpuyard::notify {

std::vector<Notification> NotifiedLevels::add_level_changes(std::vector<Notification> notifications,
                                                            WallTime now) const {
  std::vector<Notification> ends;
  for (Notification& notification : notifications) {
    const auto known = firing_.find(notification.key);
    if (known == firing_.end() || known->second == notification.level) continue;
    if (notification.status == Status::resolved) {
      notification.level = known->second;
      continue;
    }
    Notification end = notification;
    end.level = known->second;
    end.status = Status::resolved;
    end.ended_at = now;
    ends.push_back(std::move(end));
  }
  // Ends come first, because record() keeps the last notification of an alert as its present state.
  ends.insert(ends.end(), std::move_iterator(notifications.begin()),
              std::move_iterator(notifications.end()));
  return ends;
}

void NotifiedLevels::record(const std::vector<Notification>& notifications) {
  for (const Notification& notification : notifications) {
    if (notification.status == Status::resolved) {
      firing_.erase(notification.key);
    } else {
      firing_[notification.key] = notification.level;
    }
  }
}

}  // namespace gpuyard::notify
