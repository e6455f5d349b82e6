// Joins control to the driver-host, which carries out its commands, to telemetry, which knows who
// uses a GPU, and to state.db, which keeps its journal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/command_run.h"
#include "control/control.h"
#include "daemon/config/config.h"
#include "driver/host_client.h"
#include "store/control_db.h"
#include "telemetry/telemetry.h"

namespace gpuyard::daemon {

class ControlFeed final : private control::Commander {
 public:
  // The references outlive the feed.
  ControlFeed(Loop&, driver::HostClient&, const telemetry::Telemetry&, store::StateStore&,
              const config::Config&, std::string epoch);

  control::Control& control() { return control_; }
  void on_fleet(const Fleet&);

 private:
  using Done = std::function<void(const Result<void>&)>;

  bool command(const CommandRequest& request) override { return host_.command(request); }
  Result<void> may_reset(const DeviceInfo&) override;
  void reset(const DeviceInfo&, Done) override;
  void run_reset_command(const DeviceInfo&, const Done&);
  std::vector<std::string> reset_command() const;
  void end_reset();

  Loop& loop_;
  driver::HostClient& host_;
  const telemetry::Telemetry& telemetry_;
  const config::Config::Control& config_;
  store::ControlDb books_;
  control::Control control_;
  std::optional<CommandRun> resetting_;
  std::function<void()> reset_done_;  // called when the GPUs are back
  Subscription back_deadline_;
};

// Errors of changes of settings that no client waits for.

// Returns the error of the request as a whole, or of the first GPU where it failed.
inline std::optional<Error> error_of(const Result<control::Control::Changes>& changes) {
  if (!changes) return changes.error();
  for (const control::Change& change : *changes) {
    if (change.error) return change.error;
  }
  return std::nullopt;
}

}  // namespace gpuyard::daemon
