// The readings are those of `gpuyard devices --simulate 2`. They pass through the same conversions
// as real ones, so that a new row of the catalog is in every example at once: as not supported,
// until it gets a value here.
#include "api/examples.h"

#include <array>
#include <utility>

#include "api/principal.h"
#include "device/catalog.h"

namespace gpuyard::api {
namespace {

constexpr TimePoint kTaken{std::chrono::hours(1)};
constexpr WallTime kWall{std::chrono::milliseconds(1'767'225'600'250)};  // the first second of 2026
constexpr auto kAge = std::chrono::milliseconds(250);

using Value = std::pair<Metric, std::int64_t>;

constexpr std::array kBusy = {Value{Metric::memory_total, 85'520'809'984},
                              Value{Metric::memory_free, 8'489'166'439},
                              Value{Metric::memory_used, 77'031'643'545},
                              Value{Metric::utilization_gpu, 97},
                              Value{Metric::temperature_core, 66},
                              Value{Metric::power_draw, 604'551},
                              Value{Metric::power_limit, 700'000},
                              Value{Metric::energy_total, 45'242'980},
                              Value{Metric::clock_sm, 1965}};

constexpr std::array kIdle = {Value{Metric::memory_total, 85'520'809'984},
                              Value{Metric::memory_free, 84'905'295'872},
                              Value{Metric::memory_used, 615'514'112},
                              Value{Metric::utilization_gpu, 0},
                              Value{Metric::temperature_core, 34},
                              Value{Metric::power_draw, 70'112},
                              Value{Metric::power_limit, 700'000},
                              Value{Metric::energy_total, 5'263'404},
                              Value{Metric::clock_sm, 345}};

Sample sample_of(std::span<const Value> values) {
  Sample sample;
  for (const Row& row : catalog()) {
    if (row.subject != Subject::device) continue;
    sample.set({row.metric, 0, kTaken - kAge, Missing{MissingReason::not_supported, {}}});
  }
  for (const auto& [metric, value] : values) sample.set({metric, 0, kTaken - kAge, value});
  return sample;
}

gpuyard::DriverInfo driver() {
  return {"535.104.05", "12.2", "12.535.104", "libnvidia-ml.so.1", true};
}

DeviceState device(std::uint32_t index, const char* uuid, const char* pci_address,
                   std::span<const Value> values) {
  DeviceState state;
  state.info = {uuid, index, uuid, pci_address, "NVIDIA H100 80GB HBM3", {}};
  state.sample = sample_of(values);
  return state;
}

gpuyard::Snapshot snapshot() {
  gpuyard::Snapshot snapshot;
  snapshot.generation = 42;
  snapshot.taken = kTaken;
  snapshot.wall = kWall;
  snapshot.driver = {true, "", driver()};
  snapshot.devices = {device(0, "GPU-ce751ccb-2c51-4ca8-8a5f-e1cbf99717fc", "0000:11:00.0", kBusy),
                      device(1, "GPU-605b2143-4b29-4751-859c-a43e91df2009", "0000:14:00.0", kIdle)};
  return snapshot;
}

}  // namespace

protocol::GPUDevicesResponse example_of(std::type_identity<protocol::GPUDevicesResponse>) {
  protocol::GPUDevicesResponse response;
  for (const DeviceState& device : snapshot().devices) {
    response.devices.push_back(protocol::gpu_device_of(device));
  }
  response.count = response.devices.size();
  return response;
}

protocol::Device example_of(std::type_identity<protocol::Device>) {
  return protocol::device_of(snapshot().devices.front(), kTaken);
}

protocol::DriverInfo example_of(std::type_identity<protocol::DriverInfo>) {
  return protocol::driver_info_of(driver());
}

protocol::Snapshot example_of(std::type_identity<protocol::Snapshot>) {
  return protocol::snapshot_of(snapshot());
}

protocol::Health example_of(std::type_identity<protocol::Health>) {
  return {"ok", "0.1.0"};
}

protocol::Readiness example_of(std::type_identity<protocol::Readiness>) {
  return protocol::readiness_of(snapshot());
}

std::string_view text_example(const protocol::RouteInfo& route) {
  if (route.pattern != "/metrics") return "";
  return "# HELP gpuyard_gpu_temperature_celsius Core temperature.\n"
         "# TYPE gpuyard_gpu_temperature_celsius gauge\n"
         "gpuyard_gpu_temperature_celsius{device=\"0\"} 66\n"
         "gpuyard_gpu_temperature_celsius{device=\"1\"} 34\n";
}

std::string_view parameter_example(std::string_view name) {
  if (name == "id") return "0";
  if (name == "file") return "swagger-ui.css";
  return "";
}

Error error_example(Errc code, const protocol::RouteInfo& route) {
  switch (code) {
    case Errc::invalid:
      return {code, "unknown parameter \"fields\""};
    case Errc::not_found:
      return {code, "GPU index 2 is out of range"};
    case Errc::unavailable:
      return {code, "NVML Shared Library Not Found"};
    case Errc::denied: {
      const Principal stranger;
      if (auto permitted = authorise(stranger, route); !permitted) return permitted.error();
      break;
    }
    default:
      break;
  }
  return {code, std::string(name_of(code))};
}

}  // namespace gpuyard::api
