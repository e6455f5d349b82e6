// Joins the facade that speaks zeusd's protocol to telemetry, control and the CPUs' counters, and
// listens for it: on other sockets than the API, but on the same state.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/control/setting_controller.h"
#include "core/processes/users.h"
#include "daemon/config/config.h"
#include "daemon/doors.h"
#include "faces/api/principal.h"
#include "faces/cpu/rapl.h"
#include "faces/zeus/facade.h"
#include "gpu/telemetry/telemetry.h"
#include "io/http/loop.h"
#include "io/http/server.h"

namespace gpuyard::daemon {

class ZeusAdapter final : private zeus::Gpus, private zeus::Setter {
 public:
  // The references outlive the feed.
  ZeusAdapter(http::IoLoop&, Worker& query, telemetry::Telemetry&, control::Control&,
              const api::Authority&, const config::Config&, const processes::SubordinateUids&,
              const std::string& version);

  // Its address and its socket are separate listeners.
  void listen(Doors&);
  void start() { cpus_.start(); }
  void stop(Duration grace, std::function<void()> done);

 private:
  std::shared_ptr<const Snapshot> latest() const override { return telemetry_.latest(); }
  void fresh(ProbeSet, std::function<void(const Snapshot&)> done) override;
  Subscription listen_power(const DeviceId&, Duration period,
                            std::function<void(const Reading&)> heard) override;
  Result<void> enabled() const override;
  Result<void> permits(const http::Request&) override;
  void order(zeus::Order, std::function<void(const std::vector<zeus::Outcome>&)> done) override;

  telemetry::Telemetry& telemetry_;
  control::Control& control_;
  const api::Authority authority_;
  const config::Config& config_;
  const processes::SubordinateUids& uids_;
  cpu::Watch cpus_;
  zeus::CoarseCpus coarse_cpus_;
  zeus::Facade facade_;
  http::Server server_;
};

}  // namespace gpuyard::daemon
