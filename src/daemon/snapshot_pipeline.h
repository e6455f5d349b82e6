// The consumers of each snapshot, in the order in which they get it.
#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/telemetry/telemetry.h"

namespace gpuyard::daemon {

// Thread: io.
class SnapshotPipeline {
 public:
  using Consumer = std::function<void(const telemetry::SnapshotPtr&)>;

  void add(std::string_view name, Consumer consumer) {
    stages_.push_back({name, std::move(consumer)});
  }
  void run(const telemetry::SnapshotPtr& snapshot) const {
    for (const Stage& stage : stages_) stage.consumer(snapshot);
  }
  std::vector<std::string_view> names() const {
    std::vector<std::string_view> names;
    for (const Stage& stage : stages_) names.push_back(stage.name);
    return names;
  }

 private:
  struct Stage {
    std::string_view name;
    Consumer consumer;
  };
  std::vector<Stage> stages_;
};

}  // namespace gpuyard::daemon
