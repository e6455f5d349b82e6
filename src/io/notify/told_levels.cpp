#include "notify/told_levels.h"

#include <iterator>
#include <utility>

namespace gpuyard::notify {

std::vector<Notice> ToldLevels::completed(std::vector<Notice> notices, WallTime now) const {
  std::vector<Notice> ends;
  for (Notice& notice : notices) {
    const auto told = firing_.find(notice.key);
    if (told == firing_.end() || told->second == notice.level) continue;
    if (notice.status == Status::resolved) {
      notice.level = told->second;
      continue;
    }
    Notice end = notice;
    end.level = told->second;
    end.status = Status::resolved;
    end.ended_at = now;
    ends.push_back(std::move(end));
  }
  // Ends first, as note() reads them: the last word on an alert is how it is now.
  ends.insert(ends.end(), std::move_iterator(notices.begin()), std::move_iterator(notices.end()));
  return ends;
}

void ToldLevels::note(const std::vector<Notice>& notices) {
  for (const Notice& notice : notices) {
    if (notice.status == Status::resolved) {
      firing_.erase(notice.key);
    } else {
      firing_[notice.key] = notice.level;
    }
  }
}

}  // namespace gpuyard::notify
