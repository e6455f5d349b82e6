// At which level Alertmanager knows each alert. The level is one of its labels, and labels are what
// an alert is there: one that becomes worse, or ends at another level, has to be ended as what it
// was. What was told before a restart is not known here; that ends by itself.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "notify/notice.h"

namespace gpuyard::notify {

class ToldLevels {
 public:
  // The same news, with the ends of what the receiver knows by another level.
  std::vector<Notice> completed(std::vector<Notice> notices, WallTime now) const;
  // The receiver has taken these.
  void note(const std::vector<Notice>& notices);

 private:
  std::map<std::string, Level> firing_;  // by the alert's key
};

}  // namespace gpuyard::notify
