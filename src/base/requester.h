// For whom a piece of work is done, where the work of many shares one queue.
#pragma once

#include <string>

namespace gpuyard {

struct Requester {
  std::string party = {};   // shares the limits of one user: "uid 1000", "192.0.2.7"
  bool privileged = false;  // may use the room that is kept for administrators and the daemon

  // The daemon's own work, and what leases and settings need.
  static Requester daemon() { return {.party = {}, .privileged = true}; }
  friend bool operator==(const Requester&, const Requester&) = default;
};

}  // namespace gpuyard
