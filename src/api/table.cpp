#include "api/table.h"

#include "api/handlers.h"

namespace gpuyard::api {

const std::vector<BoundRoute>& table() {
  static const std::vector<BoundRoute> routes = {
      bind(protocol::kGpuDevices, &get_gpu_devices),
      bind(protocol::kDevice, &get_device),
      bind(protocol::kDeviceProcesses, &get_device_processes),
      bind(protocol::kHistory, &get_history),
      bind(protocol::kDriver, &get_driver),
      bind(protocol::kSnapshot, &get_snapshot),
      bind(protocol::kEvents, &get_events),
      bind(protocol::kPowerStream, &get_power_stream),
      bind(protocol::kEnergy, &get_energy),
      bind(protocol::kBeginEnergyWindow, &begin_energy_window),
      bind(protocol::kEnergyWindows, &get_energy_windows),
      bind(protocol::kEnergyWindow, &get_energy_window),
      bind(protocol::kEndEnergyWindow, &end_energy_window),
      bind(protocol::kManagement, &get_management),
      bind(protocol::kOperations, &get_operations),
      bind(protocol::kOperation, &get_operation),
      bind(protocol::kAudit, &get_audit),
      bind(protocol::kManagementOf, &get_management_of),
      bind(protocol::kSetPowerLimit, &set_power_limit),
      bind(protocol::kRestorePowerLimit, &restore<SettingKind::power_limit>),
      bind(protocol::kSetGpuClocks, &set_gpu_clocks),
      bind(protocol::kRestoreGpuClocks, &restore<SettingKind::gpu_clocks>),
      bind(protocol::kSetMemoryClocks, &set_memory_clocks),
      bind(protocol::kRestoreMemoryClocks, &restore<SettingKind::memory_clocks>),
      bind(protocol::kSetPersistence, &set_persistence),
      bind(protocol::kRestorePersistence, &restore<SettingKind::persistence>),
      bind(protocol::kSetComputeMode, &set_compute_mode),
      bind(protocol::kRestoreComputeMode, &restore<SettingKind::compute_mode>),
      bind(protocol::kSetEccMode, &set_ecc_mode),
      bind(protocol::kRestoreEccMode, &restore<SettingKind::ecc>),
      bind(protocol::kRestoreAll, &restore_all),
      bind(protocol::kClearEcc, &clear_ecc),
      bind(protocol::kResetGpu, &reset_gpu),
      bind(protocol::kMetrics, &get_metrics),
      bind(protocol::kHealth, &get_health),
      bind(protocol::kReady, &get_ready),
      bind(protocol::kOpenApi, &get_openapi),
      bind(protocol::kDocs, &get_docs),
      bind(protocol::kDocsAsset, &get_docs_asset),
  };
  return routes;
}

http::Response render_error(const protocol::RouteInfo& route, const Error& error) {
  if (route.errors == protocol::ErrorShape::standard) return http::error_response(error);
  std::string body = R"({"detail":)";
  json::put_string(body, error.message);
  body += '}';
  return {http_status_of(error.code), "application/json", std::move(body)};
}

}  // namespace gpuyard::api
