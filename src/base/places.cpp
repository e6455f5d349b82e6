#include "base/places.h"

#include <unistd.h>

#include <cstdlib>

#include "base/files.h"

namespace gpuyard {
namespace {

constexpr const char* kSystemSocket = "/run/gpuyard/gpuyard.sock";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string runtime_directory(const Environment& environment) {
  if (!environment.xdg_runtime_dir.empty()) return environment.xdg_runtime_dir + "/gpuyard";
  return fallback_directory(environment);
}

}  // namespace

Environment Environment::of_process() {
  return {::geteuid(),
          variable("HOME"),
          variable("XDG_CONFIG_HOME"),
          variable("XDG_RUNTIME_DIR"),
          variable("XDG_STATE_HOME"),
          variable("GPUYARD_SOCKET"),
          variable("GPUYARD_HOST"),
          variable("GPUYARD_TOKEN"),
          variable("GPUYARD_TOKEN_FILE")};
}

std::vector<std::string> default_files(const Environment& environment) {
  std::vector<std::string> files = {"/etc/gpuyard/gpuyard.toml"};
  if (!environment.xdg_config_home.empty()) {
    files.push_back(environment.xdg_config_home + "/gpuyard/gpuyard.toml");
  } else if (!environment.home.empty()) {
    files.push_back(environment.home + "/.config/gpuyard/gpuyard.toml");
  }
  return files;
}

std::string hosts_file(const Environment& environment) {
  return parent_directory(default_files(environment).back()) + "/hosts.toml";
}

std::string default_socket(const Environment& environment) {
  if (!environment.gpuyard_socket.empty()) return environment.gpuyard_socket;
  if (environment.root()) return kSystemSocket;
  return runtime_directory(environment) + "/gpuyard.sock";
}

std::string default_state_directory(const Environment& environment) {
  if (environment.root()) return "/var/lib/gpuyard";
  if (!environment.xdg_state_home.empty()) return environment.xdg_state_home + "/gpuyard";
  if (!environment.home.empty()) return environment.home + "/.local/state/gpuyard";
  return runtime_directory(environment) + "/state";
}

std::string fallback_directory(const Environment& environment) {
  return "/tmp/gpuyard-" + std::to_string(environment.uid);
}

bool in_fallback_directory(const Environment& environment, const std::string& path) {
  const std::string fallback = fallback_directory(environment);
  return path == fallback || path.starts_with(fallback + "/");
}

std::vector<std::string> sockets_to_try(const Environment& environment) {
  if (!environment.gpuyard_socket.empty()) return {environment.gpuyard_socket};
  std::vector<std::string> sockets = {kSystemSocket};
  if (!environment.root()) sockets.push_back(runtime_directory(environment) + "/gpuyard.sock");
  return sockets;
}

}  // namespace gpuyard
