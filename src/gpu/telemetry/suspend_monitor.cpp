#include "gpu/telemetry/suspend_monitor.h"

#include <optional>

namespace gpuyard::telemetry {

void SuspendMonitor::update(std::vector<PollState>& poll_states, bool renew, TimePoint now) {
  if (!source_) return;
  if (renew) delays_.clear();
  for (PollState& poll_state : poll_states) {
    const DeviceInfo& info = poll_state.info();
    if (renew) {
      if (const auto delay = source_->suspend_delay(info.pci_address))
        delays_.emplace(info.id, *delay);
    }
    const auto delay = delays_.find(info.id);
    if (delay == delays_.end()) {
      poll_state.update_suspend(std::nullopt, false, true, now);
    } else {
      poll_state.update_suspend(delay->second, source_->is_suspended(info.pci_address),
                                is_needed_(info.id), now);
    }
  }
}

}  // namespace gpuyard::telemetry
