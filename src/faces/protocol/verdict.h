// One verdict on each GPU, for every engine and every person that gives out its work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_shape.h"
#include "base/record.h"
#include "faces/protocol/resources.h"
#include "faces/protocol/route.h"
#include "gpu/device/fitness.h"

namespace gpuyard::protocol {

struct GpuVerdict {
  std::uint32_t index = 0;
  std::optional<std::int64_t> minor;
  std::string uuid;
  std::string pci_address;
  std::string name;
  Verdict verdict = Verdict::unknown;
  std::optional<std::string> rule;
  std::string why;
  std::string advice;
  std::optional<std::string> cordoned;
};
BOOST_DESCRIBE_STRUCT(GpuVerdict, (),
                      (index, minor, uuid, pci_address, name, verdict, rule, why, advice, cordoned))
GPUYARD_ABOUT(GpuVerdict, {"minor", "The N of its device file /dev/nvidiaN; null: unknown."},
              {"verdict",
               "bad: an alert quarantines it. good: no alert does, and all readings that a verdict "
               "needs are known. A GPU in MIG mode can be good. Otherwise unknown."},
              {"rule", "The rule whose alert quarantines it; null: not quarantined."},
              {"why", "The reason for bad or unknown, as a sentence; otherwise empty."},
              {"advice", "Advice for a bad GPU; otherwise empty."},
              {"cordoned", "The reason why an administrator has cordoned it; null: not cordoned."})

struct GpuVerdicts : AnswerHead {
  std::optional<std::string> driver_error;
  bool driver_down = false;
  std::uint64_t count = 0;
  std::vector<GpuVerdict> gpus;
};
BOOST_DESCRIBE_STRUCT(GpuVerdicts, (AnswerHead), (driver_error, driver_down, count, gpus))
GPUYARD_ABOUT(GpuVerdicts, {"driver_down", "An unacknowledged alert reports a missing driver."},
              {"count", "The number of GPUs, for readers that leave out a malformed entry."})

inline constexpr Route<NoParams, GpuVerdicts> kVerdict{
    {"GET", "/api/gpu/verdict", "GPU", Scope::read, GpuScope::some,
     "Whether each GPU may get new work: good, bad or unknown, with the reason and what to do."}};

}  // namespace gpuyard::protocol

namespace gpuyard::json {

GPUYARD_SCHEMA(protocol::GpuVerdict);
GPUYARD_SCHEMA(protocol::GpuVerdicts);

}  // namespace gpuyard::json
