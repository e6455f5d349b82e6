// The daemon: wires every room to the io thread and runs until it is told to stop. The one place
// where rooms meet.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "daemon/config/config.h"
#include "faces/library/driver_source.h"
#include "faces/protocol/resources.h"
#include "gpu/device/snapshot.h"
#include "io/http/server.h"

namespace gpuyard::daemon {

struct ServeOptions {
  config::Config config;
  library::DriverChoice driver;
  std::string version;
  // The socket of the setter; empty: the daemon starts one, with these arguments beside those of
  // its driver.
  std::string setter_address = {};
  std::vector<std::string> setter_arguments = {};
  // The files that the configuration was read from, whether they exist or not.
  std::vector<std::string> files = {};
  // Reads the configuration again; called on any thread. Null: the configuration stays.
  std::function<Result<config::Config>()> read_config;
  // Renders the table of GPUs for `GET /`.
  std::function<std::string(const protocol::Snapshot&)> device_table =
      [](const protocol::Snapshot&) { return std::string(); };
  // Called once, with the first snapshot and the URLs and sockets that listen.
  std::function<void(const Snapshot&, const std::vector<std::string>& addresses)> on_ready;
  // Names the simulated world, so that one is not taken for another; called on the io thread.
  std::function<std::string()> simulated_world = [] { return std::string(); };
};

// Creates a directory of the daemon with its parents. Errc::denied if it is in config's fallback
// directory in /tmp and another user made that directory.
inline constexpr unsigned kPublicDirectoryMode = 0755;
Result<void> make_daemon_directory(const std::string& directory, unsigned mode, const Environment&);

// Checks the same of files and directories of the daemon's own as check_trusted_by_root() does of a
// configuration: only root, this process's user and the package's may change them. In a container
// root serves from directories of the package's user. May ask a name service.
Result<void> check_trusted_path(const std::string& path, std::string_view why);

// Binds an address, and returns its URL.
Result<std::string> listen_on_address(http::Server&, const std::string& address);
// Binds a socket, creates its directory if needed, and returns the socket. `directory` is the name
// of that directory in an error.
Result<std::string> listen_on_socket(http::Server&, const std::string& socket,
                                     std::string_view directory);

// Locks the state directory for one daemon, for as long as the descriptor lives. Errc::conflict
// names the pid of the other daemon.
Result<UniqueFd> lock_state(const std::string& directory);

// Runs until SIGTERM or SIGINT; then open connections get half a second. SIGHUP reads the
// configuration again and applies its live keys, or nothing if anything in it is wrong. A SIGHUP
// because our terminal was closed ends the daemon. An error means that it never served. The caller
// has locked the state directory.
Result<void> serve(const ServeOptions&);

}  // namespace gpuyard::daemon
