#include "io/notify/dead_letter_log.h"

#include <chrono>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"

namespace gpuyard::notify {
namespace {

constexpr Duration kLogInterval = std::chrono::minutes(1);
constexpr std::size_t kMaxNamedAlerts = 16;  // so that the line fits into a pipe at once

}  // namespace

void DeadLetterLog::record(const std::string& alert, const std::string& why) {
  ++total_;
  if (unlogged_++ < kMaxNamedAlerts) alerts_.push_back(alert);
  last_reason_ = why;
  if (!logged_at_ || loop_.now() - *logged_at_ >= kLogInterval) return flush();
  if (unlogged_ == 1) timer_ = loop_.call_at(*logged_at_ + kLogInterval, [this] { flush(); });
}

void DeadLetterLog::flush() {
  const std::size_t count = std::exchange(unlogged_, 0);
  if (count == 0) return;
  const auto alerts = std::exchange(alerts_, {});
  logged_at_ = loop_.now();
  if (count == 1) {
    return log::error("Sink {}: a notification of alert {} was not delivered ({} so far): {}",
                      sink_, alerts.front(), total_, last_reason_);
  }
  const std::string_view more = count > alerts.size() ? " and others" : "";
  log::error("Sink {}: {} notifications of alerts {}{} were not delivered ({} so far): {}", sink_,
             count, fmt::join(alerts, ", "), more, total_, last_reason_);
}

}  // namespace gpuyard::notify
