// Use under leases as the API's description shows it: a week of two users on the two H100.
#include "api/examples.h"

namespace gpuyard::api {

protocol::Usage example_of(std::type_identity<protocol::Usage>) {
  protocol::Usage usage;
  usage.simulated = true;
  usage.since = "2025-12-25T00:00:00.000Z";
  usage.by = "user";
  usage.rows = {{"alice", 1000, 41.5, 24.071, false, 91.25, 77'031'643'545, 7, 0},
                {"1001", 1001, 3.25, 1.218, true, 54.5, 8'489'166'439, 12, 0.5}};
  usage.unleased = {"", {}, 291.25, 20.387, false, 0.5, 629'145'600, 0, 0};
  return usage;
}

}  // namespace gpuyard::api
