// The driver and the kernel's log both tell of most Xids: which of them tells news. Pure: it is
// told the time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/clock.h"
#include "device/event.h"

namespace gpuyard::events {

class Dedupe {
 public:
  // False: the other source told of this Xid of this GPU already. One to one: of three in a row,
  // told by both, three are new. `now` is when it was heard, which no clock of a source can shift.
  bool is_new(const DeviceEvent&, TimePoint now);

  // The sources tell of the same Xid within so long.
  static constexpr Duration kWindow = std::chrono::seconds(5);
  // So many wait for their double; beyond that the oldest has none.
  static constexpr std::size_t kMostWaiting = 4096;

 private:
  struct Waiting {
    DeviceId device;
    std::uint32_t xid;
    EventSource source;
    TimePoint heard;
  };
  std::deque<Waiting> waiting_;  // by time
};

}  // namespace gpuyard::events
