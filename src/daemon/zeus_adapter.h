// Joins the facade that speaks zeusd's protocol to telemetry, control and the CPUs' counters, and
// listens for it: on other sockets than the API, but on the same state.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/control/setting_controller.h"
#include "core/processes/subordinate_uids.h"
#include "daemon/config/config.h"
#include "daemon/listener_opener.h"
#include "faces/api/principal.h"
#include "faces/cpu/cpu_energy_monitor.h"
#include "faces/zeus/facade.h"
#include "gpu/telemetry/telemetry.h"
#include "io/http/loop.h"
#include "io/http/server.h"

namespace gpuyard::daemon {

// Thread: io.
class ZeusAdapter final : private zeus::GpuSource, private zeus::SettingWriter {
 public:
  // The references outlive it.
  ZeusAdapter(http::IoLoop&, Worker& query_worker, telemetry::Telemetry&,
              control::SettingController&, const api::Authority&, const config::Config&,
              const processes::SubordinateUids&, const std::string& version);

  // Its address and its socket are separate listeners.
  void listen(ListenerOpener&);
  void start() { cpus_.start(); }
  void stop(Duration grace, std::function<void()> on_done);

 private:
  std::shared_ptr<const Snapshot> latest() const override { return telemetry_.latest(); }
  void read_fresh(ProbeSet, std::function<void(const Snapshot&)> on_done) override;
  Subscription subscribe_power(const DeviceId&, Duration period,
                               std::function<void(const Reading&)> on_reading) override;
  Result<void> check_enabled() const override;
  Result<void> check_access(const http::Request&) override;
  void submit(zeus::SettingOrder,
              std::function<void(const std::vector<zeus::GpuOutcome>&)> on_done) override;

  telemetry::Telemetry& telemetry_;
  control::SettingController& control_;
  const api::Authority authority_;
  const config::Config& config_;
  const processes::SubordinateUids& uids_;
  cpu::CpuEnergyMonitor cpus_;
  zeus::CoarseEnergyMonitor coarse_cpus_;
  zeus::Facade facade_;
  http::Server server_;
};

}  // namespace gpuyard::daemon
