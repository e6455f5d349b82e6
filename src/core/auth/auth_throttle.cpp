#include "core/auth/auth_throttle.h"

#include <algorithm>
#include <utility>

namespace gpuyard::auth {

// If all slots are taken, the address that failed least recently is evicted.
AuthThrottle::Address& AuthThrottle::find_or_add(const std::string& address) {
  const auto found = addresses_.find(address);
  if (found != addresses_.end()) return found->second;
  if (addresses_.size() >= kMaxAddresses) {
    addresses_.erase(std::ranges::min_element(
        addresses_, {}, [](const auto& one) { return one.second.last_failure_at; }));
  }
  return addresses_[address];
}

Duration AuthThrottle::delay_of(const Address& address) const {
  if (address.failures <= kMaxUndelayedFailures) return Duration::zero();
  Duration delay = kMinDelay;
  for (int i = kMaxUndelayedFailures + 1; i < address.failures && delay < kMaxDelay; ++i)
    delay *= 2;
  return std::min(delay, kMaxDelay);
}

bool AuthThrottle::record_failure(const std::string& name, const OnLogDue& on_log_due,
                                  std::function<void()> send_reply) {
  Address& address = find_or_add(name);
  const TimePoint now = loop_.now();
  const bool first = address.failures == 0;
  if (!first && now - address.last_failure_at >= kFailureRetention) address.failures = 0;
  ++address.failures;
  address.last_failure_at = now;
  ++address.unlogged_failures;
  if (first || now - address.logged_at >= kLogInterval) {
    address.logged_at = now;
    on_log_due(std::exchange(address.unlogged_failures, 0));
  }
  const Duration delay = delay_of(address);
  if (delay == Duration::zero()) {
    send_reply();
    return true;
  }
  if (delayed_replies_.size() >= kMaxDelayedReplies) return false;
  const std::uint64_t number = ++next_reply_;
  delayed_replies_.emplace(
      number, loop_.call_after(delay, [this, number, send_reply = std::move(send_reply)] {
        delayed_replies_.erase(number);
        send_reply();
      }));
  return true;
}

}  // namespace gpuyard::auth
