// Joins the driver-host to telemetry, and both sources of events - the driver and the kernel's
// log - to the event log, the alerts and control.
#pragma once

#include <sys/resource.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/lifetime.h"
#include "base/unique_fd.h"
#include "daemon/alert_adapter.h"
#include "daemon/control_adapter.h"
#include "daemon/driver_renewal.h"
#include "daemon/machine_memory.h"
#include "daemon/serve.h"
#include "gpu/driver/driver_host_client.h"
#include "gpu/events/event_collector.h"
#include "gpu/events/event_log.h"
#include "gpu/events/kernel_log.h"
#include "gpu/telemetry/telemetry.h"
#include "io/http/loop.h"

namespace gpuyard::daemon {

// Returns the words after the program's name of a process that loads the driver. `descriptors`: the
// soft limit of its descriptors.
std::vector<std::string> driver_arguments(const ServeOptions&, rlim_t descriptors);

// Thread: io.
class DriverLink final : private driver::DriverHostListener, private telemetry::ReadRequester {
 public:
  // The consumers of what the driver reports. They outlive the link's last call of them.
  struct Consumers {
    MachineMemory& memory;
    ControlAdapter& control;
    AlertAdapter& alerts;
  };

  DriverLink(http::IoLoop&, const ServeOptions&, rlim_t descriptors);

  // Starts the driver-host. Nothing is reported before. `is_needed` returns whether an idle GPU is
  // read although the kernel may suspend it.
  void start(const Consumers&, std::function<bool(const DeviceId&)> is_needed);
  // Restarts a driver-host whose every answer is an error.
  void on_snapshot(const Snapshot&);

  driver::DriverHostClient& host() { return host_; }
  telemetry::Telemetry& telemetry() { return telemetry_; }
  events::EventLog& event_log() { return event_log_; }
  const EventDrops& event_drops() const { return event_collector_.drops(); }
  bool reads_kernel_log() const { return kernel_log_ && kernel_log_->is_open(); }

 private:
  void on_inventory(const Inventory&) override;
  void on_no_driver(const Error&) override;
  void on_replies(const std::vector<ReadReply>& replies) override {
    telemetry_.on_replies(replies);
  }
  void on_command_reply(const CommandReply&) override;
  void on_event(const DeviceEvent& event) override { event_collector_.on_driver_event(event); }
  void on_host_down(const std::string& why) override;
  bool read(const std::vector<ReadRequest>& requests) override { return host_.read(requests); }
  events::EventCollector::Listener event_listener();
  void follow_kernel_log(bool simulated);
  void follow_runtime_power(bool simulated);
  std::string machine_of(const DriverInfo&) const;
  void publish_inventory();

  http::IoLoop& loop_;
  const ServeOptions& options_;
  // Opened once, before the sockets and while the process has the capability for it.
  // follow_kernel_log() moves from it.
  std::optional<Result<UniqueFd>> kernel_log_file_;
  driver::DriverHostClient host_;
  DriverRenewal renewal_;
  telemetry::Telemetry telemetry_;
  events::EventLog event_log_;
  events::EventCollector event_collector_;
  std::optional<events::KernelLog> kernel_log_;
  std::optional<Inventory> inventory_;  // kept until the machine memory is recalled
  std::optional<Consumers> consumers_;  // since start()
  std::function<bool(const DeviceId&)> is_needed_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::daemon
