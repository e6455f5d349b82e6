#include "daemon/config_reloader.h"

#include <utility>

#include "base/try.h"
#include "daemon/alert_config.h"
#include "daemon/config_check.h"

namespace gpuyard::daemon {
namespace {

Result<ConfigReloader::LoadedConfig> load_config(const ConfigReloader::ReadConfig& read_config,
                                                 const config::Config::Control& control) {
  auto config = GPUYARD_TRY(read_config());
  config::Config effective = config;
  effective.control = control;
  GPUYARD_TRY(check_config(effective));
  auto alerts = GPUYARD_TRY(read_alert_config(effective));
  return ConfigReloader::LoadedConfig{std::move(config), std::move(alerts)};
}

}  // namespace

ConfigReloader::ConfigReloader(Worker& worker, ReadConfig read_config,
                               config::Config::Control control, OnLoaded on_loaded)
    : worker_(worker),
      read_config_(std::move(read_config)),
      control_(std::move(control)),
      on_loaded_(std::move(on_loaded)) {}

void ConfigReloader::begin() {
  if (!read_config_) return;
  if (reading_) {
    reload_pending_ = true;
    return;
  }
  reading_ = run_on_worker(
      worker_,
      [read_config = read_config_, control = control_] {
        return load_config(read_config, control);
      },
      lifetime_.guard([this](Result<LoadedConfig> fresh) { on_read(std::move(fresh)); }));
  if (!reading_) on_loaded_(Error{Errc::busy, "the disk queue is full; send SIGHUP again"});
}

void ConfigReloader::on_read(Result<LoadedConfig> fresh) {
  reading_ = false;
  on_loaded_(std::move(fresh));
  if (std::exchange(reload_pending_, false)) begin();
}

}  // namespace gpuyard::daemon
