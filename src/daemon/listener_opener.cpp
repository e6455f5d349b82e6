#include "daemon/listener_opener.h"

#include <utility>

#include "base/log.h"

namespace gpuyard::daemon {

void ListenerOpener::add(const std::string& name, OpenListener open) {
  if (stopped_) return;
  pending_.emplace(name, open);
  try_open(name, open);
  if (!pending_.empty() && !retry_timer_)
    retry_timer_ = loop_.call_after(kRetryDelay, [this] { retry_closed(); });
}

void ListenerOpener::try_open(const std::string& name, const OpenListener& open) {
  const auto address = open();
  if (!address) {
    std::string& why = closed_[name];
    if (std::exchange(why, address.error().text()) == address.error().text()) return;
    return log::error("{} is closed; retrying every {} s: {}", name,
                      to_milliseconds(kRetryDelay) / 1000, why);
  }
  closed_.erase(name);
  pending_.erase(name);
  on_opened_(*address);
}

void ListenerOpener::retry_closed() {
  retry_timer_.reset();
  const auto waiting = pending_;  // a listener that opens is removed from the list
  for (const auto& [name, open] : waiting) try_open(name, open);
  if (!pending_.empty()) retry_timer_ = loop_.call_after(kRetryDelay, [this] { retry_closed(); });
}

void ListenerOpener::stop() {
  stopped_ = true;
  retry_timer_.reset();
  pending_.clear();
}

}  // namespace gpuyard::daemon
