// Reads the configuration and the file of alerts again while the daemon runs. It reads on a worker,
// so that a disk that hangs stops nothing else.
#pragma once

#include <functional>

#include "base/lifetime.h"
#include "base/result.h"
#include "base/worker.h"
#include "daemon/alert_config.h"
#include "daemon/config/config.h"

namespace gpuyard::daemon {

// Thread: io.
class ConfigReloader {
 public:
  using ReadConfig = std::function<Result<config::Config>()>;
  // A configuration and alerts that were read without any error.
  struct LoadedConfig {
    config::Config config;
    AlertConfig alerts;
  };
  using OnLoaded = std::function<void(Result<LoadedConfig>)>;

  // The worker outlives it. `read_config` runs there. `control` is the section in force until the
  // next start, which decides what alerts may do.
  ConfigReloader(Worker&, ReadConfig read_config, config::Config::Control control,
                 OnLoaded on_loaded);
  ConfigReloader(const ConfigReloader&) = delete;
  ConfigReloader& operator=(const ConfigReloader&) = delete;

  // Starts to read. If called while it reads, it reads once more after that.
  void begin();

 private:
  void on_read(Result<LoadedConfig>);

  Worker& worker_;
  const ReadConfig read_config_;
  const config::Config::Control control_;
  const OnLoaded on_loaded_;
  bool reading_ = false;
  bool reload_pending_ = false;
  Lifetime lifetime_;
};

}  // namespace gpuyard::daemon
