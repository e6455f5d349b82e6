// What is known at one moment of all that rules may look at. Missing is nothing, never 0.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "andon/signal.h"
#include "base/clock.h"
#include "device/snapshot.h"

namespace gpuyard::andon {

struct GpuFacts {
  DeviceInfo info;
  Signals signals;
  std::string why = {};  // of its health or its condition, as a sentence; "" where all is well
  // Null while the GPU does not answer: its last readings are of another time. Lives as long as the
  // snapshot.
  const Sample* sample = nullptr;
};

struct Facts {
  bool simulated = false;
  std::vector<GpuFacts> gpus;
  Signals node;
};

// What others know of a GPU.
struct LeaseFacts {
  std::optional<bool> leased = {};
  std::optional<std::size_t> squatters = {};
};

// Remembers what one snapshot cannot tell: since when a GPU is idle. Pure: it is told the time.
class FactBook {
 public:
  // `leases`: by GPU; who is not in it is not known.
  Facts note(const Snapshot&, const std::map<DeviceId, LeaseFacts>& leases, TimePoint now);

 private:
  // For how long it is so, as far as that is known: what is not known is left out.
  class Lasting {
   public:
    // Seconds; 0: it is not so.
    std::optional<double> note(std::optional<bool> is, TimePoint now);

   private:
    std::optional<TimePoint> last_;  // when it was so, if nothing else was found since
    Duration so_far_{};
  };
  struct Idle {
    Lasting in_use;
    Lasting leased;
  };

  GpuFacts note_gpu(const DeviceState&, const LeaseFacts&, TimePoint now);
  void note_idle(const DeviceState&, const LeaseFacts&, Signals&, TimePoint now);

  std::map<DeviceId, Idle> idle_;
};

}  // namespace gpuyard::andon
