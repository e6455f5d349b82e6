// The daemon: wires every room to the io thread and runs until it is told to stop. The one place
// where rooms meet.
#pragma once

#include <sys/resource.h>

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "daemon/config/config.h"
#include "device/snapshot.h"
#include "http/server.h"
#include "library/driver_source.h"

namespace gpuyard::daemon {

struct ServeOptions {
  config::Config config;
  library::DriverChoice driver;
  std::string version;
  // The configuration as it is now, for who asks to have it read again; on any thread. Null: it
  // stays.
  std::function<Result<config::Config>()> reread;
  // Told once: the first snapshot, and the URLs and sockets that listen.
  std::function<void(const Snapshot&, const std::vector<std::string>& places)> on_ready;
};

// Creates a directory of the daemon's with its parents. Where that is in config's fallback
// directory in /tmp, Errc::denied if somebody else made that one.
inline constexpr unsigned kAnybodyMayEnter = 0755;
Result<void> make_place(const std::string& directory, unsigned mode, const config::Environment&);

// Binds these addresses and, unless it is empty, the socket, whose directory it makes; `directory`
// names that in an error. Returns the URLs and the socket.
Result<std::vector<std::string>> listen_at(http::Server&, const std::vector<std::string>& listen,
                                           const std::string& socket, std::string_view directory);

// Everything about a configuration that can be checked without starting: addresses, prefix, socket
// path.
Result<void> check(const config::Config&);

// One daemon for each state directory, for as long as the descriptor lives. Errc::conflict names
// the other's pid.
Result<UniqueFd> lock_state(const std::string& directory);

// Runs until SIGTERM or SIGINT; then open connections get half a second. SIGHUP: reads the
// configuration again, and takes what is live of it or, where anything in it is wrong, nothing; but
// if it is that our terminal was closed, we end. An
// error means that it never served. The state directory is locked by the caller.
Result<void> serve(const ServeOptions&);

// How the descriptors that the daemon may have open are divided: half of them for connections, a
// quarter for processes that leases wait or are held for; the rest is for files, the driver-host
// and what else must go on when strangers have all that they may have.

// What this process may have open now.
rlim_t descriptor_limit();

// Of each server of the daemon.
http::Limits limits_of(const config::Config&, rlim_t descriptors);

// Claims that wait, of all users together.
std::size_t most_waiting_claims(rlim_t descriptors);

}  // namespace gpuyard::daemon
