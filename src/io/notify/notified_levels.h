// The level at which Alertmanager knows each alert. Alertmanager identifies an alert by its labels,
// and the level is one of them: an alert that becomes worse, or ends at another level, has to be
// ended at its old level. Levels sent before a restart are not known here; those alerts end by
// themselves.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "io/notify/notification.h"

namespace gpuyard::notify {

class NotifiedLevels {
 public:
  // Returns the notifications, with an end for each alert that the receiver knows at another level.
  std::vector<Notification> add_level_changes(std::vector<Notification> notifications,
                                              WallTime now) const;
  // Records that the receiver has taken these.
  void record(const std::vector<Notification>& notifications);

 private:
  std::map<std::string, NotificationLevel> firing_;  // by the alert's key
};

}  // namespace gpuyard::notify
