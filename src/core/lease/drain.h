// What is still to be seen gone of leases that were given up. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lease/gpu_book.h"
#include "lease/observer.h"

namespace gpuyard::lease {

// Whether everything of a lease is gone: none of its processes lives, none is on its GPUs, and
// their memory is free again. Else what is left, for people.
class DrainBook {
 public:
  // A driver keeps some memory of a process for a moment; more than this is still somebody's.
  static constexpr std::int64_t kSlackBytes = std::int64_t{512} << 20;

  // What was used of a GPU while nobody used it.
  void note_floor(const DeviceId& gpu, std::int64_t used_bytes) { floor_[gpu] = used_bytes; }
  // Its processes that have to go: those on its GPUs, and those that may still begin to use them.
  // Who gave up a lease himself may live on.
  static std::vector<Process> remaining(const Lease&, const Sight&);
  // Nothing: all is gone.
  std::optional<std::string> left(const Lease&, const Sight&, const GpuBook&) const;

 private:
  std::optional<std::string> left_on(const Lease&, const DeviceId&, const Sight&) const;

  std::map<DeviceId, std::int64_t> floor_;
};

}  // namespace gpuyard::lease
