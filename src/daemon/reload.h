// Reads the configuration and the file of alerts again while the daemon runs: on a worker, so that
// a disk that hangs stops nothing else.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "andon/rule.h"
#include "base/result.h"
#include "base/worker.h"
#include "daemon/config/config.h"
#include "notify/sink_config.h"

namespace gpuyard::daemon {

// Rules and sinks in force: the built-in ones, and what the administrator's file says. All of it is
// right, or nothing is taken.

struct AlertsFile {
  std::string file;  // "": there is none, and all is built in
  andon::Rules rules;
  // The file's; "log" if it has none of that name; and one for each command of a rule, by
  // sink_of_command().
  std::vector<notify::SinkConfig> sinks;
};

// No sink of the file can be called so.
std::string sink_of_command(const std::string& rule);
bool is_sink_of_command(const std::string& sink);

// Errc::invalid: "FILE:LINE: what, and what to do".
Result<AlertsFile> read_alerts(const config::Config&);

// Lives on the io thread.
class Reload {
 public:
  using Reread = std::function<Result<config::Config>()>;
  // What was read, all of it right.
  struct Fresh {
    config::Config config;
    AlertsFile alerts;
  };
  using Hear = std::function<void(Result<Fresh>)>;

  // The worker outlives it. `reread` runs there. `control`: as it is until the next start, and what
  // alerts may do with it.
  Reload(Worker&, Reread reread, config::Config::Control control, Hear hear);
  Reload(const Reload&) = delete;
  Reload& operator=(const Reload&) = delete;

  // Told while it reads, it reads once more after that.
  void begin();

 private:
  void on_read(Result<Fresh>);

  Worker& worker_;
  const Reread reread_;
  const config::Config::Control control_;
  const Hear hear_;
  bool reading_ = false;
  bool again_ = false;
  Lifetime here_;
};

}  // namespace gpuyard::daemon
