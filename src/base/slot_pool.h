// Limits how many slots of a shared queue each user may take. Pure state.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "base/requester.h"

namespace gpuyard {

class SlotPool {
 public:
  struct Limits {
    std::size_t max;            // in total
    std::size_t reserved;       // of these, reserved for privileged requesters
    std::size_t max_per_group;  // for each unprivileged group
  };

  explicit SlotPool(Limits limits) : limits_(limits) {}

  bool can_acquire(const Requester& requester) const {
    if (acquired_ >= limits_.max) return false;
    if (requester.privileged) return true;
    const auto own = by_group_.find(requester.quota_group);
    return unprivileged_ < limits_.max - limits_.reserved &&
           (own == by_group_.end() || own->second < limits_.max_per_group);
  }
  // Takes a slot. Returns false if none is left for this requester.
  bool try_acquire(const Requester& requester) {
    if (!can_acquire(requester)) return false;
    ++acquired_;
    if (requester.privileged) return true;
    ++unprivileged_;
    ++by_group_[requester.quota_group];
    return true;
  }

 private:
  Limits limits_;
  std::size_t acquired_ = 0;
  std::size_t unprivileged_ = 0;  // taken by unprivileged groups
  std::map<std::string, std::size_t> by_group_;
};

}  // namespace gpuyard
