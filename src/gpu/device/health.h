// The verdict on a GPU, as a pure function of what is known of it: healthy, degraded, unhealthy, or
// not known. Unknown is never an alarm, and never healthy.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include <boost/describe.hpp>

#include "device/device.h"
#include "gpuyard/health.h"

namespace gpuyard {

BOOST_DESCRIBE_ENUM(Health, healthy, degraded, unhealthy)

// Which thresholds hold for which GPU.
struct HealthPolicy {
  HealthThresholds common;
  std::map<std::string, HealthThresholds> of_gpu;  // by index, UUID or PCI address

  const HealthThresholds& thresholds_of(const DeviceInfo&) const;
};

// What the verdict looks at.
struct HealthFacts {
  std::optional<Missing> lost;                      // the driver says that the GPU is gone
  std::variant<Missing, std::int64_t> temperature;  // of the core, C
  std::variant<Missing, std::int64_t> ecc_errors;  // uncorrectable ones, any that were ever counted
  std::int64_t new_ecc_errors = 0;                 // of these: neither acknowledged nor contained
  std::size_t contained = 0;                       // processes hit by a contained one, still alive
};

// The worst of the findings, with all of them as reasons. Without any: healthy if everything is
// known, else nothing with what is not known as reasons. A GPU without ECC misses nothing; one
// whose temperature nobody can read is not known to be healthy.
HealthReport judge(const HealthFacts&, const HealthThresholds&);

}  // namespace gpuyard
