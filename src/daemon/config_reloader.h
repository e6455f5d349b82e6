// Reads the configuration and the file of alerts again while the daemon runs. It reads on a worker,
// so that a disk that hangs stops nothing else.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/worker.h"
#include "core/andon/rule.h"
#include "daemon/config/config.h"
#include "io/notify/sink_config.h"

namespace gpuyard::daemon {

// The rules and sinks in force: the built-in ones, and those of the administrator's file. If any of
// it is wrong, nothing is taken.

struct AlertConfig {
  std::string file;  // "": there is no file, and all is built in
  std::string text;  // of the file
  andon::Rules rules;
  // The sinks of the file; "log" if the file has none of that name; and one for the command of each
  // rule, named by sink_of_command().
  std::vector<notify::SinkConfig> sinks;
};

// Returns a name that no sink of the file can have.
std::string sink_of_command(const std::string& rule);
bool is_sink_of_command(const std::string& sink);

// Errc::invalid: "FILE:LINE: what, and what to do".
Result<AlertConfig> read_alert_config(const config::Config&);

// Lives on the io thread.
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
