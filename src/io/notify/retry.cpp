#include "notify/retry.h"

#include <algorithm>

namespace gpuyard::notify {

Duration back_off(unsigned failures, double random) {
  Duration whole = kFirstBackOff;
  for (unsigned i = 1; i < failures && whole < kLongestBackOff; ++i) whole *= 2;
  whole = std::min(whole, kLongestBackOff);
  const auto half = static_cast<double>((whole / 2).count());
  return whole / 2 + Duration(static_cast<Duration::rep>(half * random));
}

}  // namespace gpuyard::notify
