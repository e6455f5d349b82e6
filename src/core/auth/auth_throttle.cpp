#include "core/auth/auth_throttle.h"

#include <algorithm>
#include <utility>

namespace gpuyard::access {

// Where all places are taken, the address that failed least recently is forgotten.
Guesses::Address& Guesses::known(const std::string& address) {
  const auto found = addresses_.find(address);
  if (found != addresses_.end()) return found->second;
  if (addresses_.size() >= kAddresses) {
    addresses_.erase(
        std::ranges::min_element(addresses_, {}, [](const auto& one) { return one.second.last; }));
  }
  return addresses_[address];
}

Duration Guesses::delay_of(const Address& address) const {
  if (address.failures <= kFree) return Duration::zero();
  Duration delay = kShortest;
  for (int i = kFree + 1; i < address.failures && delay < kLongest; ++i) delay *= 2;
  return std::min(delay, kLongest);
}

bool Guesses::failed(const std::string& name, const Note& note, std::function<void()> answer) {
  Address& address = known(name);
  const TimePoint now = loop_.now();
  const bool first = address.failures == 0;
  if (!first && now - address.last >= kForgotten) address.failures = 0;
  ++address.failures;
  address.last = now;
  ++address.unnoted;
  if (first || now - address.noted >= kNotedEvery) {
    address.noted = now;
    note(std::exchange(address.unnoted, 0));
  }
  const Duration delay = delay_of(address);
  if (delay == Duration::zero()) {
    answer();
    return true;
  }
  if (waiting_.size() >= kWaiting) return false;
  const std::uint64_t number = ++next_;
  waiting_.emplace(number, loop_.call_after(delay, [this, number, answer = std::move(answer)] {
    waiting_.erase(number);
    answer();
  }));
  return true;
}

}  // namespace gpuyard::access
