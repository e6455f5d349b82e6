#include "io/notify/back_off.h"

namespace gpuyard::notify {

Duration back_off(unsigned failures, double random) {
  Duration whole = kInitialBackOff;
  for (unsigned i = 1; i < failures && whole < kMaxBackOff; ++i) whole *= 2;
  whole = std::min(whole, kMaxBackOff);
  const auto half = static_cast<double>((whole / 2).count());
  return whole / 2 + Duration(static_cast<Duration::rep>(half * random));
}

}  // namespace gpuyard::notify
