// What a user may set, as one validated plain struct. Knows no TOML, no flag and no room.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"

namespace gpuyard::config {

struct Config {
  struct Server {
    std::vector<std::string> listen = {"127.0.0.1:9410"};
    std::string socket;  // load() fills an empty one
    std::vector<std::string> allowed_hosts;
  } server;
  struct State {
    std::string directory;  // load() fills an empty one
  } state;
  struct Driver {
    std::string nvml;  // empty: the loader's own search
  } driver;
  struct Metrics {
    std::string prefix = "gpuyard";
  } metrics;
  struct Log {
    log::Level level = log::Level::info;
  } log;
};

// The environment as far as configuration looks at it; a test makes its own.
struct Environment {
  bool root = false;
  std::string home;
  std::string xdg_config_home;
  std::string xdg_runtime_dir;
  std::string xdg_state_home;
  std::string gpuyard_socket;

  static Environment of_process();
};

// Where the system's and the user's configuration files are, in the order in which they are read.
std::vector<std::string> default_files(const Environment&);

// Where a daemon of this user puts its socket and its state: /run/gpuyard and /var/lib/gpuyard for
// root, the XDG directories for others.
std::string default_socket(const Environment&);
std::string default_state_directory(const Environment&);

// Sockets on which a client looks for a daemon, best first.
std::vector<std::string> sockets_to_try(const Environment&);

}  // namespace gpuyard::config
