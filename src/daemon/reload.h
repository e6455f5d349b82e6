// Reads the configuration and the file of alerts again while the daemon runs: on a worker, so that
// a disk that hangs stops nothing else.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "base/worker.h"
#include "daemon/alerts_file.h"
#include "daemon/config/config.h"

namespace gpuyard::daemon {

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
  std::shared_ptr<Reload*> self_ = std::make_shared<Reload*>(this);
};

}  // namespace gpuyard::daemon
