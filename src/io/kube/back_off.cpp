#include "io/kube/back_off.h"

#include <algorithm>

namespace gpuyard::kube {

Duration back_off(unsigned failures, std::optional<Duration> retry_after, double random) {
  constexpr Duration kMaxHalf = kMaxBackOff / 2;
  Duration half = kMinBackOff;
  for (unsigned i = 1; i < failures && half < kMaxHalf; ++i) half *= 2;
  half = std::min(half, kMaxHalf);
  const Duration asked = std::min(retry_after.value_or(Duration(0)), kMaxRetryAfter);
  const auto spread = std::clamp(random, 0.0, 1.0) * static_cast<double>(half.count());
  return std::max(half, asked) + Duration(static_cast<Duration::rep>(spread));
}

}  // namespace gpuyard::kube
