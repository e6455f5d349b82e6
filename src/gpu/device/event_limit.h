// How many events of one GPU are passed on: a GPU that is dying can have thousands in a second.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/token_bucket.h"
#include "device/event.h"

namespace gpuyard {

// `burst` at once, and `each_second` from then on. Pure state; as many keys as its owner uses.
class EventLimit {
 public:
  EventLimit(double burst, double each_second) : burst_(burst), each_second_(each_second) {}

  // False: too many; it is counted.
  bool admit(const DeviceId&, TimePoint now);

  // What was not admitted, as one event for each GPU: as soon as one would be admitted again, and
  // then counted from 0. Called from time to time.
  std::vector<DeviceEvent> take_refused(EventSource, TimePoint now);
  // There is something that take_refused() has still to tell.
  bool holds_back() const;

 private:
  struct Bucket {
    TokenBucket tokens;
    std::uint64_t refused = 0;
  };

  const double burst_;
  const double each_second_;
  std::map<DeviceId, Bucket> buckets_;
};

}  // namespace gpuyard
