#include "notify/dead_letter_log.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"

namespace gpuyard::notify {
namespace {

constexpr Duration kBetween = std::chrono::minutes(1);
constexpr std::size_t kMostNamed = 16;  // so that the line fits into a pipe at once

}  // namespace

void DeadLetterLog::note(const std::string& alert, const std::string& why) {
  ++total_;
  if (unsaid_++ < kMostNamed) alerts_.push_back(alert);
  why_ = why;
  if (!said_at_ || loop_.now() - *said_at_ >= kBetween) return say();
  if (unsaid_ == 1) timer_ = loop_.call_at(*said_at_ + kBetween, [this] { say(); });
}

void DeadLetterLog::say() {
  const std::size_t count = std::exchange(unsaid_, 0);
  if (count == 0) return;
  const auto alerts = std::exchange(alerts_, {});
  said_at_ = loop_.now();
  if (count == 1) {
    return log::error("Sink {}: a notice of alert {} was not delivered ({} so far): {}", sink_,
                      alerts.front(), total_, why_);
  }
  const std::string_view more = count > alerts.size() ? " and others" : "";
  log::error("Sink {}: {} notices of alerts {}{} were not delivered ({} so far): {}", sink_, count,
             fmt::join(alerts, ", "), more, total_, why_);
}

}  // namespace gpuyard::notify
