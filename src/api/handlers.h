// All handlers, one file per resource. Plain functions on the io thread; none blocks.
#pragma once

#include "api/context.h"
#include "api/table.h"
#include "protocol/routes.h"

namespace gpuyard::api {

using protocol::NoParams;
using protocol::Text;

void get_gpu_devices(Context&, const NoParams&, Responder<protocol::GPUDevicesResponse>);
void get_device(Context&, const protocol::DeviceName&, Responder<protocol::Device>);
void get_device_processes(Context&, const Asked&, const protocol::DeviceName&,
                          Responder<protocol::DeviceProcesses>);
void get_history(Context&, const protocol::HistoryQuery&, Responder<protocol::History>);
void get_driver(Context&, const NoParams&, Responder<protocol::DriverInfo>);
void get_snapshot(Context&, const NoParams&, Responder<protocol::Snapshot>);
void get_events(Context&, const protocol::EventsRequest&, Responder<Text>);
void get_power_stream(Context&, const protocol::PowerStreamRequest&, Responder<Text>);
void get_energy(Context&, const NoParams&, Responder<protocol::EnergyReport>);
void begin_energy_window(Context&, const Asked&, const NoParams&, const protocol::EnergyWindowWish&,
                         Responder<protocol::EnergyWindow>);
void get_energy_windows(Context&, const NoParams&, Responder<protocol::EnergyWindows>);
void get_energy_window(Context&, const protocol::WindowName&, Responder<protocol::EnergyWindow>);
void end_energy_window(Context&, const Asked&, const protocol::WindowName&,
                       Responder<protocol::EnergyWindow>);
void set_power_limit(Context&, const Asked&, const protocol::ManagedGpus&,
                     const protocol::PowerLimitWish&, Responder<protocol::Changes>);
void set_gpu_clocks(Context&, const Asked&, const protocol::ManagedGpus&,
                    const protocol::ClocksWish&, Responder<protocol::Changes>);
void set_memory_clocks(Context&, const Asked&, const protocol::ManagedGpus&,
                       const protocol::ClocksWish&, Responder<protocol::Changes>);
void set_persistence(Context&, const Asked&, const protocol::ManagedGpus&,
                     const protocol::EnabledWish&, Responder<protocol::Changes>);
void set_compute_mode(Context&, const Asked&, const protocol::ManagedGpus&,
                      const protocol::ComputeModeWish&, Responder<protocol::Changes>);
void set_ecc_mode(Context&, const Asked&, const protocol::ManagedGpus&,
                  const protocol::EnabledWish&, Responder<protocol::Changes>);
void restore_all(Context&, const Asked&, const protocol::ManagedGpus&, const protocol::ChangeWish&,
                 Responder<protocol::Changes>);
void clear_ecc(Context&, const Asked&, const protocol::ManagedGpus&, const protocol::ClearEccWish&,
               Responder<protocol::Changes>);
void reset_gpu(Context&, const Asked&, const protocol::ManagedGpus&, const protocol::ChangeWish&,
               Responder<protocol::Changes>);
// For each kind the same.
void restore_setting(SettingKind, Context&, const Asked&, const protocol::RestoreQuery&,
                     Responder<protocol::Changes>);
template <SettingKind kKind>
void restore(Context& context, const Asked& asked, const protocol::RestoreQuery& query,
             Responder<protocol::Changes> respond) {
  restore_setting(kKind, context, asked, query, std::move(respond));
}
void get_usage(Context&, const protocol::UsageQuery&, Responder<protocol::Usage>);
void get_management(Context&, const NoParams&, Responder<protocol::Management>);
void get_management_of(Context&, const protocol::ManagedGpus&, Responder<protocol::Management>);
void get_operations(Context&, const NoParams&, Responder<protocol::Operations>);
void get_operation(Context&, const protocol::OperationName&, Responder<protocol::Operation>);
void get_audit(Context&, const protocol::AuditQuery&, Responder<protocol::Audit>);
void get_leases(Context&, const Asked&, const NoParams&, Responder<protocol::Leases>);
void claim_lease(Context&, const Asked&, const NoParams&, const protocol::LeaseWish&,
                 Responder<protocol::LeaseAnswer>);
void adopt_lease(Context&, const Asked&, const NoParams&, const protocol::AdoptWish&,
                 Responder<protocol::LeaseAnswer>);
void get_lease(Context&, const Asked&, const protocol::LeaseName&,
               Responder<protocol::LeaseAnswer>);
void release_lease(Context&, const Asked&, const protocol::ReleaseQuery&,
                   Responder<protocol::LeaseAnswer>);
void renew_lease(Context&, const Asked&, const protocol::LeaseName&, const protocol::RenewWish&,
                 Responder<protocol::LeaseAnswer>);
void add_lease_member(Context&, const Asked&, const protocol::LeaseName&,
                      const protocol::MemberWish&, Responder<protocol::LeaseAnswer>);
void get_queue(Context&, const Asked&, const NoParams&, Responder<protocol::Queue>);
void get_load(Context&, const NoParams&, Responder<protocol::Load>);
void cordon_gpus(Context&, const Asked&, const protocol::ManagedGpus&, const protocol::CordonWish&,
                 Responder<protocol::Cordoned>);
void uncordon_gpus(Context&, const Asked&, const protocol::ManagedGpus&,
                   Responder<protocol::Cordoned>);
void get_alerts(Context&, const NoParams&, Responder<protocol::Alerts>);
void get_alert_history(Context&, const protocol::AlertHistoryQuery&,
                       Responder<protocol::AlertHistory>);
void acknowledge_alert(Context&, const Asked&, const protocol::AlertName&,
                       const protocol::AcknowledgeWish&, Responder<protocol::AlertAnswer>);
void get_silences(Context&, const NoParams&, Responder<protocol::Silences>);
void put_silence(Context&, const Asked&, const NoParams&, const protocol::SilenceWish&,
                 Responder<protocol::Silence>);
void end_silence(Context&, const Asked&, const protocol::SilenceName&,
                 Responder<protocol::Silences>);
void get_rules(Context&, const NoParams&, Responder<protocol::Rules>);
void get_sinks(Context&, const NoParams&, Responder<protocol::Sinks>);
void test_sinks(Context&, const Asked&, const NoParams&, const protocol::SinkTestWish&,
                Responder<protocol::SinkTests>);

void get_metrics(Context&, const Asked&, const NoParams&, Responder<Text>);
void get_health(Context&, const NoParams&, Responder<protocol::Health>);
void get_ready(Context&, const NoParams&, Responder<protocol::Readiness>);
void get_openapi(Context&, const NoParams&, Responder<Text>);
void get_docs(Context&, const NoParams&, Responder<Text>);
void get_docs_asset(Context&, const protocol::AssetName&, Responder<Text>);

}  // namespace gpuyard::api
