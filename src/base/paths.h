// The paths of gpuyard's files and sockets, for the daemon and for its clients, by the environment.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gpuyard {

// Returns the value of a variable; empty if it is not set.
std::string_view environment_variable(const char* name);

// The part of the environment that decides; a test makes its own.
struct Environment {
  unsigned uid = 65534;  // the effective one
  std::string home;
  std::string xdg_config_home;
  std::string xdg_runtime_dir;
  std::string xdg_state_home;
  // A service's own directories, which systemd makes for it; they win over all other defaults.
  std::string service_configuration = {};
  std::string service_runtime = {};
  std::string service_state = {};
  std::string gpuyard_socket = {};
  std::string gpuyard_host = {};
  std::string gpuyard_token = {};
  std::string gpuyard_token_file = {};
  // Set by the package's unit: the daemon's user is no person and no administrator.
  bool system_service = false;

  bool is_root() const { return uid == 0; }

  static Environment current();
};

// Returns "~" and "~/..." with the home directory in the place of ~; nothing for any other path, or
// if there is no home.
std::optional<std::string> expand_home(std::string_view path, std::string_view home);

// Returns a path of a configuration file as an absolute one: ~ is `home`. Errc::invalid for a
// relative path, which would depend on where the program was started, and for ~ where there is no
// home.
Result<std::string> absolute_path(std::string_view path, std::string_view home);

// Returns the system's and the user's configuration files, in the order in which they are read.
std::vector<std::string> default_config_files(const Environment&);

// Returns the user's file of names of hosts, beside the last configuration file.
std::string hosts_file(const Environment&);

// Returns where a daemon of this user puts its socket and its state: /run/gpuyard and
// /var/lib/gpuyard for root, the XDG directories for others, its own directories for a service.
std::string default_socket(const Environment&);
std::string default_state_directory(const Environment&);

// Returns /tmp/gpuyard-<uid>, which replaces a missing runtime directory. In /tmp another user may
// have made it first: a daemon makes it with make_private_directory(), and a client calls
// check_private_directory() before it trusts what it finds there.
std::string fallback_directory(const Environment&);

// True if `path` is the fallback directory or in it.
bool is_in_fallback_directory(const Environment&, const std::string& path);

// Returns the sockets on which a client tries to reach a daemon, best first.
std::vector<std::string> candidate_sockets(const Environment&);

}  // namespace gpuyard
