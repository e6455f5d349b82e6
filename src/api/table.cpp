#include "api/table.h"

#include "api/handlers.h"

namespace gpuyard::api {

namespace {

// A daemon may keep no leases, as when it shows a recording.
BoundRoute of_leases(BoundRoute route) {
  route.call = [call = std::move(route.call)](Context& context, const protocol::RouteInfo& info,
                                              const Asked& asked, http::Reply reply) {
    if (context.leases != nullptr) return call(context, info, asked, std::move(reply));
    reply(render_error(info, {Errc::unavailable, "this daemon hands out no GPUs"}));
  };
  return route;
}

}  // namespace

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
      of_leases(bind(protocol::kLeases, &get_leases)),
      of_leases(bind(protocol::kClaim, &claim_lease)),
      of_leases(bind(protocol::kAdopt, &adopt_lease)),
      of_leases(bind(protocol::kLease, &get_lease)),
      of_leases(bind(protocol::kRelease, &release_lease)),
      of_leases(bind(protocol::kRenew, &renew_lease)),
      of_leases(bind(protocol::kAddMember, &add_lease_member)),
      of_leases(bind(protocol::kQueue, &get_queue)),
      of_leases(bind(protocol::kLoad, &get_load)),
      bind(protocol::kUsage, &get_usage),
      of_leases(bind(protocol::kCordon, &cordon_gpus)),
      of_leases(bind(protocol::kUncordon, &uncordon_gpus)),
      bind(protocol::kAlerts, &get_alerts),
      bind(protocol::kAlertHistory, &get_alert_history),
      bind(protocol::kAcknowledge, &acknowledge_alert),
      bind(protocol::kTestSinks, &test_sinks),
      bind(protocol::kSilencesNow, &get_silences),
      bind(protocol::kSilence, &put_silence),
      bind(protocol::kUnsilence, &end_silence),
      bind(protocol::kRules, &get_rules),
      bind(protocol::kSinks, &get_sinks),
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
