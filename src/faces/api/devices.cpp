// GPUs: the fresh list of the REST contract, and the full picture from the newest snapshot.
#include "api/handlers.h"
#include "base/json_writer.h"
#include "base/log.h"

namespace gpuyard::api {
namespace {

void get_gpu_devices(Context& context, const NoParams&,
                     Responder<protocol::GPUDevicesResponse> respond) {
  // Shared, because a std::function must be copyable; answered once all the same.
  const auto answer = std::make_shared<Responder<protocol::GPUDevicesResponse>>(std::move(respond));
  context.telemetry.fresh(protocol::kGpuDeviceProbes,
                          [answer](const telemetry::SnapshotPtr& snapshot) {
                            protocol::GPUDevicesResponse response;
                            for (const DeviceState& device : snapshot->devices) {
                              response.devices.push_back(protocol::gpu_device_of(device));
                            }
                            response.count = response.devices.size();
                            if (!snapshot->driver.initialised && response.devices.empty()) {
                              log::debug("NVML not initialized, returning empty device list");
                            }
                            (*answer)(std::move(response));
                          });
}

void get_device(Context& context, const protocol::DeviceName& name,
                Responder<protocol::Device> respond) {
  const auto& snapshot = context.telemetry.latest();
  if (!snapshot->driver.initialised && snapshot->devices.empty()) {
    return respond(Error{Errc::unavailable, snapshot->driver.why});
  }
  const auto device = find_device(*snapshot, name.id);
  if (!device) return respond(device.error());
  respond(protocol::device_of(**device, snapshot->taken, context.processes));
}

void get_device_processes(Context& context, const Asked& asked, const protocol::DeviceName& name,
                          Responder<protocol::DeviceProcesses> respond) {
  const auto& snapshot = context.telemetry.latest();
  if (!snapshot->driver.initialised && snapshot->devices.empty()) {
    return respond(Error{Errc::unavailable, snapshot->driver.why});
  }
  const auto device = find_device(*snapshot, name.id);
  if (!device) return respond(device.error());
  const auto may_see = [&](const ProcessFacts& facts) {
    return may_see_arguments(asked.principal, facts);
  };
  respond(protocol::device_processes_of(**device, snapshot->taken, context.processes, may_see));
}

void get_snapshot(Context& context, const NoParams&, Responder<protocol::Snapshot> respond) {
  const Snapshot& snapshot = *context.telemetry.latest();
  // Both numbers only grow, so that their sum changes with either.
  const std::uint64_t book = context.processes != nullptr ? context.processes->revision() : 0;
  respond.rendered(context.snapshot.get(snapshot.generation + book, [&] {
    return json::to_json(protocol::snapshot_of(snapshot, context.processes));
  }));
}

}  // namespace

std::vector<BoundRoute> device_routes() {
  return {
      bind(protocol::kGpuDevices, &get_gpu_devices),
      bind(protocol::kDevice, &get_device),
      bind(protocol::kDeviceProcesses, &get_device_processes),
  };
}

std::vector<BoundRoute> snapshot_routes() {
  return {bind(protocol::kSnapshot, &get_snapshot)};
}

}  // namespace gpuyard::api
