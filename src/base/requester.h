// The user on whose behalf work is queued, where many users share one queue.
#pragma once

#include <string>

namespace gpuyard {

struct Requester {
  std::string quota_group = {};  // shares the limits of one user: "uid 1000", "192.0.2.7"
  bool privileged = false;       // may use the slots reserved for administrators and the daemon

  // The daemon's own work, and writes of leases and settings.
  static Requester daemon() { return {.quota_group = {}, .privileged = true}; }
  friend bool operator==(const Requester&, const Requester&) = default;
};

}  // namespace gpuyard
