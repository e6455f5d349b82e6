// The routes of GPUs: the fresh list of the REST contract, and the full state from the newest
// snapshot.
#include "base/json_writer.h"
#include "base/log.h"
#include "faces/api/bound_route.h"
#include "faces/api/context.h"
#include "faces/api/responder.h"
#include "gpu/device/gpu_snapshot.h"

namespace gpuyard::api {
namespace {

protocol::GPUDevicesResponse gpu_devices_of(const Snapshot& snapshot, const Principal& caller) {
  protocol::GPUDevicesResponse response;
  for (const DeviceState& device : snapshot.devices) {
    if (caller.can_see(device.info.id)) response.devices.push_back(gpu_device_of(device));
  }
  response.count = response.devices.size();
  if (!snapshot.driver.initialised && response.devices.empty()) {
    log::debug("NVML not initialized, returning empty device list");
  }
  return response;
}

void get_gpu_devices(GpuApi& api, const RouteCall& call, const NoParams&,
                     const Responder<protocol::GPUDevicesResponse>& respond) {
  const auto send_devices = [&api, caller = call.principal,
                             respond](const telemetry::SnapshotPtr& snapshot) {
    if (!caller.gpus.empty()) return respond(gpu_devices_of(*snapshot, caller));
    // Callers who share a read share its text.
    respond.send_rendered(api.fresh_devices.get(
        snapshot, [&] { return json::to_json(gpu_devices_of(*snapshot, caller)); }));
  };
  api.telemetry.read_fresh(kGpuDeviceProbes, send_devices);
}

Result<const DeviceState*> find_device_by_name(const Snapshot& snapshot, const std::string& name) {
  if (!snapshot.driver.initialised && snapshot.devices.empty()) {
    return Error{Errc::unavailable, snapshot.driver.why};
  }
  return find_device(snapshot, name);
}

void get_device(GpuApi& api, const RouteCall& call, const protocol::DeviceName& name,
                const Responder<protocol::Device>& respond) {
  const auto visible = visible_snapshot(api.telemetry, call.principal);
  const Snapshot& snapshot = *visible;
  const auto device = find_device_by_name(snapshot, name.id);
  if (!device) return respond(device.error());
  respond(protocol::device_of(**device, snapshot.taken, &api.processes));
}

void get_device_processes(GpuApi& api, const RouteCall& call, const protocol::DeviceName& name,
                          const Responder<protocol::DeviceProcesses>& respond) {
  const auto visible = visible_snapshot(api.telemetry, call.principal);
  const Snapshot& snapshot = *visible;
  const auto device = find_device_by_name(snapshot, name.id);
  if (!device) return respond(device.error());
  const auto can_see = [&](const ProcessMetadata& facts) {
    return can_see_arguments(call.principal, facts);
  };
  respond(protocol::device_processes_of(**device, snapshot.taken, &api.processes, can_see));
}

void get_snapshot(GpuApi& api, const RouteCall& call, const protocol::SnapshotQuery& query,
                  const Responder<protocol::Snapshot>& respond) {
  if (query.at) return respond_with_past_snapshot(api.past, call, *query.at, respond);
  const auto visible = visible_snapshot(api.telemetry, call.principal);
  const Snapshot& snapshot = *visible;
  if (!call.principal.gpus.empty()) {
    return respond(protocol::snapshot_of(snapshot, &api.processes));
  }
  // Both numbers only grow, so their sum changes with either.
  const std::uint64_t process_revision = api.processes.revision();
  respond.send_rendered(api.snapshot.get(snapshot.generation + process_revision, [&] {
    return json::to_json(protocol::snapshot_of(snapshot, &api.processes));
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

telemetry::SnapshotPtr visible_snapshot(const telemetry::Telemetry& telemetry,
                                        const Principal& principal) {
  auto latest = telemetry.latest();
  if (principal.gpus.empty()) return latest;
  auto visible = std::make_shared<Snapshot>(*latest);
  std::erase_if(visible->devices,
                [&](const DeviceState& device) { return !principal.can_see(device.info.id); });
  return visible;
}

}  // namespace gpuyard::api
