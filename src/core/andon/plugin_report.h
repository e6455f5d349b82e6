// Which GPUs Kubernetes' device plugin hides, that is does not offer to pods, as the agent of this
// node has reported last. Pure: the caller passes the time.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace gpuyard::andon {

class PluginReport {
 public:
  // A report counts for this time: three times the agent's interval, so that one lost report
  // changes nothing. Without the agent or the kubelet, the plugin is then unknown.
  static constexpr Duration kMaxAge = std::chrono::minutes(3);

  // `uuids`: of all GPUs that the plugin hides while it offers others.
  void update(std::set<std::string, std::less<>> uuids, TimePoint now);
  // Returns whether the plugin hides the GPU; nothing: there is no report that counts.
  std::optional<bool> hides(std::string_view uuid, TimePoint now) const;

 private:
  std::set<std::string, std::less<>> hidden_;
  std::optional<TimePoint> updated_at_;
};

}  // namespace gpuyard::andon
