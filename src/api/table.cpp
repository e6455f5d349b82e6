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
