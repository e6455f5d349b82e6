// Evaluates a GPU's health as a pure function of what is known of it: healthy, degraded, unhealthy,
// or unknown. Unknown is never an alarm and never healthy.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <boost/describe.hpp>

#include "gpu/device/device.h"
#include "gpuyard/health.h"

namespace gpuyard {

BOOST_DESCRIBE_ENUM(Health, healthy, degraded, unhealthy)

// Chooses the thresholds of each GPU.
struct HealthPolicy {
  HealthThresholds common;
  std::map<std::string, HealthThresholds> of_gpu;  // by index, UUID or PCI address

  const HealthThresholds& thresholds_of(const DeviceInfo&) const;
};

// The facts that the verdict is based on.
struct HealthFacts {
  std::optional<Missing> lost;                      // the driver says that the GPU is gone
  std::variant<Missing, std::int64_t> temperature;  // of the core, C
  std::variant<Missing, std::int64_t> ecc_errors;   // all uncorrectable errors ever counted
  std::int64_t new_ecc_errors = 0;                  // those neither acknowledged nor contained
  std::size_t contained = 0;                        // live processes hit by a contained error
  std::string contradiction = {};                   // PowerSources::contradiction()
};

// Returns the worst finding, with all findings as reasons. Without findings: healthy if everything
// is known; otherwise no verdict, with the unknown values as reasons. A GPU without ECC lacks
// nothing; a GPU whose temperature cannot be read is not known to be healthy.
HealthReport evaluate_health(const HealthFacts&, const HealthThresholds&);

}  // namespace gpuyard
