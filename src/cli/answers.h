// What `--json` prints where it is no resource of the REST API. Fields may be added, not changed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json_schema.h"
#include "cli/version.h"
#include "protocol/resources.h"

namespace gpuyard::cli {

struct VersionAnswer {
  int schema = protocol::kSchemaVersion;
  std::string version = std::string(kVersion);
};
BOOST_DESCRIBE_STRUCT(VersionAnswer, (), (schema, version))

struct DriverAnswer {
  int schema = protocol::kSchemaVersion;
  std::optional<std::string> driver_version;
  std::optional<std::string> cuda_driver_version;
  std::optional<std::string> nvml_version;
  bool simulated = false;
};
BOOST_DESCRIBE_STRUCT(DriverAnswer, (),
                      (schema, driver_version, cuda_driver_version, nvml_version, simulated))

struct DaemonFinding {
  bool reachable = false;
  std::optional<std::string> address;  // where it is, or was looked for
  std::optional<std::string> version;
  std::optional<bool> ready;
  std::string message;
};
BOOST_DESCRIBE_STRUCT(DaemonFinding, (), (reachable, address, version, ready, message))

struct DriverFinding {
  bool initialised = false;
  std::optional<std::string> library;  // path of the NVML that is loaded
  std::optional<std::string> driver_version;
  std::optional<std::string> cuda_driver_version;
  std::optional<std::string> nvml_version;
  std::optional<std::string> error;  // the driver's own words
  std::uint64_t gpus = 0;
};
BOOST_DESCRIBE_STRUCT(DriverFinding, (),
                      (initialised, library, driver_version, cuda_driver_version, nvml_version,
                       error, gpus))

struct DoctorAnswer {
  int schema = protocol::kSchemaVersion;
  bool healthy = false;
  bool simulated = false;
  bool cuda_available = false;
  DriverFinding driver;
  DaemonFinding daemon;
  std::vector<std::string> advice;  // what to do next
};
BOOST_DESCRIBE_STRUCT(DoctorAnswer, (),
                      (schema, healthy, simulated, cuda_available, driver, daemon, advice))

}  // namespace gpuyard::cli

namespace gpuyard::json {

template <>
inline constexpr About about<&cli::DoctorAnswer::cuda_available>{
    "NVML is initialised and there is at least one GPU."};
template <>
inline constexpr About about<&cli::DriverAnswer::cuda_driver_version>{
    "The highest CUDA version that the driver supports."};

}  // namespace gpuyard::json
