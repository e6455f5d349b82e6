// Joins control to the driver-host, which reads for it, to the setter, which executes its changes,
// to telemetry, which knows who uses a GPU, and to state.db, which stores its settings and audit.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/command_run.h"
#include "core/control/setting_controller.h"
#include "daemon/config/config.h"
#include "daemon/setter_link.h"
#include "gpu/driver/driver_host_client.h"
#include "gpu/telemetry/telemetry.h"
#include "io/store/control_db.h"

namespace gpuyard::daemon {

// Thread: io.
class ControlAdapter final : private control::CommandPort {
 public:
  // The references outlive it.
  // `setter`: how to get one; it is started only where control is enabled.
  ControlAdapter(Loop&, driver::DriverHostClient&, const telemetry::Telemetry&, store::StateStore&,
                 const config::Config&, std::string epoch, driver::DriverHostClient::Spawn setter,
                 std::string version);

  control::SettingController& control() { return control_; }
  // `on_no_journal` gets the reason if changes of GPUs have to wait for state.db.
  void start(std::function<void(const Error&)> on_no_journal);
  // SettingController::stop(), and commits what is not in state.db yet.
  void stop(std::function<void()> on_done);
  void on_inventory(const Inventory&);
  void on_host_down(const std::string& why);

 private:
  using OnDone = std::function<void(const Result<void>&)>;

  bool send(const CommandRequest&) override;
  std::optional<Error> change_error() const override;
  std::vector<std::string> notes() const override;
  void use_journal(std::function<void(const Error&)> on_no_journal);
  Result<std::unique_ptr<store::ControlJournal>> begin_journal();
  void check_gpu_bounds(const DeviceInfo&);
  Result<void> check_reset(const DeviceInfo&) override;
  void reset_gpu(const DeviceInfo&, OnDone) override;
  void close_driver(std::function<void(Result<void>)> on_closed);
  void open_driver();
  void run_reset_command(const DeviceInfo&, const OnDone&);
  std::vector<std::string> reset_command() const;
  void end_reset();

  Loop& loop_;
  driver::DriverHostClient& host_;
  const telemetry::Telemetry& telemetry_;
  const config::Config::Control& config_;
  const std::string state_directory_;
  const std::string runtime_directory_;
  store::ControlDb db_;
  control::SettingController control_;
  std::optional<SetterLink> setter_;  // where control is enabled
  bool driver_closed_ = false;        // the driver is closed for a reset
  // Errors in the configured bounds of a GPU's power limit.
  std::map<DeviceId, std::string> bounds_errors_;
  std::optional<CommandRun> reset_run_;
  std::function<void()> on_reset_done_;  // called when the GPUs are back
  Subscription reset_timer_;
};

// Returns the error of the request as a whole, or of the first GPU where it failed.
inline std::optional<Error> first_error_of(
    const Result<control::SettingController::Changes>& changes) {
  if (!changes) return changes.error();
  for (const control::ChangeResult& change : *changes) {
    if (change.error) return change.error;
  }
  return std::nullopt;
}

}  // namespace gpuyard::daemon
