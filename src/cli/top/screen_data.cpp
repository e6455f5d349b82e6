#include "cli/top/screen_data.h"

#include <set>

#include "cli/top/grid.h"

namespace gpuyard::cli::top {

void append_utilization(UtilizationHistory& recent, const protocol::Snapshot& snapshot) {
  std::set<std::string> there;
  for (const protocol::Device& device : snapshot.devices) {
    there.insert(device.uuid);
    const auto use = device.condition == DeviceCondition::responsive
                         ? protocol::number_of(device.readings, Metric::utilization_gpu)
                         : std::nullopt;
    std::deque<double>& values = recent[device.uuid];
    values.push_back(use ? static_cast<double>(*use) / 100 : kNoValue);
    if (values.size() > kUtilizationSamples) values.pop_front();
  }
  std::erase_if(recent, [&](const auto& one) { return !there.contains(one.first); });
}

}  // namespace gpuyard::cli::top
