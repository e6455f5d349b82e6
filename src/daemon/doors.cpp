#include "daemon/doors.h"

#include <utility>

#include "base/log.h"

namespace gpuyard::daemon {

void Doors::add(const std::string& name, Open open) {
  if (stopped_) return;
  waiting_.emplace(name, open);
  try_one(name, open);
  if (!waiting_.empty() && !again_) again_ = loop_.call_after(kAgain, [this] { try_again(); });
}

void Doors::try_one(const std::string& name, const Open& open) {
  const auto place = open();
  if (!place) {
    std::string& why = closed_[name];
    if (std::exchange(why, place.error().text()) == place.error().text()) return;
    return log::error("{} is closed; retrying every {} s: {}", name, to_milliseconds(kAgain) / 1000,
                      why);
  }
  closed_.erase(name);
  waiting_.erase(name);
  opened_(*place);
}

void Doors::try_again() {
  again_.reset();
  const auto waiting = waiting_;  // a listener that opens is removed from the list
  for (const auto& [name, open] : waiting) try_one(name, open);
  if (!waiting_.empty()) again_ = loop_.call_after(kAgain, [this] { try_again(); });
}

void Doors::stop() {
  stopped_ = true;
  again_.reset();
  waiting_.clear();
}

}  // namespace gpuyard::daemon
