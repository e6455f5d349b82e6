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
void get_device_processes(Context&, const Principal&, const protocol::DeviceName&,
                          Responder<protocol::DeviceProcesses>);
void get_history(Context&, const protocol::HistoryQuery&, Responder<protocol::History>);
void get_driver(Context&, const NoParams&, Responder<protocol::DriverInfo>);
void get_snapshot(Context&, const NoParams&, Responder<protocol::Snapshot>);
void get_events(Context&, const protocol::EventsRequest&, Responder<Text>);
void get_power_stream(Context&, const protocol::PowerStreamRequest&, Responder<Text>);
void get_energy(Context&, const NoParams&, Responder<protocol::EnergyReport>);
void begin_energy_window(Context&, const Principal&, const NoParams&,
                         const protocol::EnergyWindowWish&, Responder<protocol::EnergyWindow>);
void get_energy_windows(Context&, const NoParams&, Responder<protocol::EnergyWindows>);
void get_energy_window(Context&, const protocol::WindowName&, Responder<protocol::EnergyWindow>);
void end_energy_window(Context&, const Principal&, const protocol::WindowName&,
                       Responder<protocol::EnergyWindow>);
void get_metrics(Context&, const NoParams&, Responder<Text>);
void get_health(Context&, const NoParams&, Responder<protocol::Health>);
void get_ready(Context&, const NoParams&, Responder<protocol::Readiness>);
void get_openapi(Context&, const NoParams&, Responder<Text>);
void get_docs(Context&, const NoParams&, Responder<Text>);
void get_docs_asset(Context&, const protocol::AssetName&, Responder<Text>);

}  // namespace gpuyard::api
