// All that rules may evaluate, at one moment. An unknown value is empty, never 0.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "core/andon/signals.h"
#include "gpu/device/nvlinks.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::andon {

struct GpuFacts {
  DeviceInfo info;
  Signals signals;
  std::string why = {};       // what is wrong with its health or condition, as a sentence; or ""
  std::string unleased = {};  // its unleased processes, as LeaseFacts names them; or ""
  std::string pod = {};       // whose lease it has, as "default/trainer-0"; "": not a pod's
  // Null while the GPU does not answer, because its last readings are outdated. Lives as long as
  // the snapshot.
  const Sample* sample = nullptr;
};

struct Facts {
  bool simulated = false;
  std::vector<GpuFacts> gpus;
  Signals node;
};

// Who has a GPU and who may have it: the facts of the lease manager, and of the reports that an
// alert compares with them.
struct LeaseFacts {
  std::optional<bool> leased = {};
  std::optional<std::size_t> unleased_processes = {};
  std::string unleased_text = {};         // names them: "(PID 17 (python) of UID 1000)"
  std::string lease = {};                 // the id
  std::string pod = {};                   // of a pod's lease
  std::optional<bool> plugin_hides = {};  // Kubernetes' device plugin does not offer it
  bool withheld = false;                  // by a quarantine or a cordon
};

// Remembers what one snapshot does not show: since when a GPU is idle, and which of its NVLinks
// were up. Pure: the caller passes the time.
class FactCollector {
 public:
  // `leases`: by GPU; a GPU that is not in it is not known.
  Facts collect(const Snapshot&, const std::map<DeviceId, LeaseFacts>& leases, TimePoint now);

 private:
  // Measures how long something has lasted. Time in which it is not known whether it lasts does not
  // count.
  class DurationTracker {
   public:
    // Returns seconds: 0 if it does not last now, nothing if that is not known.
    std::optional<double> update(std::optional<bool> active, TimePoint now);

   private:
    std::optional<TimePoint> last_true_at_;  // the last time it held; empty after anything else
    Duration elapsed_{};
  };
  struct Idle {
    DurationTracker in_use;
    DurationTracker leased;
    std::string lease;
  };

  GpuFacts collect_gpu(const DeviceState&, const LeaseFacts&, TimePoint now);
  void update_idle(const DeviceState&, const LeaseFacts&, Signals&, TimePoint now);

  std::map<DeviceId, Idle> idle_;
  std::map<DeviceId, NvlinkTracker> nvlink_trackers_;
};

}  // namespace gpuyard::andon
