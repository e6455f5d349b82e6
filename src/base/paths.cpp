#include "base/paths.h"

#include <unistd.h>

#include <cstdlib>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"

namespace gpuyard {

std::string_view environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

namespace {

constexpr const char* kSystemRuntime = "/run/gpuyard";
constexpr const char* kSocket = "/gpuyard.sock";

std::string variable(const char* name) {
  return std::string(environment_variable(name));
}

// systemd gives several directories with colons between them; ours is the first.
std::string directory_of_service(const char* name) {
  const std::string directories = variable(name);
  return directories.substr(0, directories.find(':'));
}

std::string runtime_directory(const Environment& environment) {
  if (!environment.service_runtime.empty()) return environment.service_runtime;
  if (environment.is_root()) return kSystemRuntime;
  if (!environment.xdg_runtime_dir.empty()) return environment.xdg_runtime_dir + "/gpuyard";
  return fallback_directory(environment);
}

}  // namespace

Environment Environment::current() {
  const std::string home = variable("HOME");
  // A shell replaces ~; a service manager, a container and a cron table do not.
  const auto path = [&](const char* name) {
    const std::string value = variable(name);
    return expand_home(value, home).value_or(value);
  };
  return {::geteuid(),
          home,
          variable("XDG_CONFIG_HOME"),
          variable("XDG_RUNTIME_DIR"),
          variable("XDG_STATE_HOME"),
          directory_of_service("CONFIGURATION_DIRECTORY"),
          directory_of_service("RUNTIME_DIRECTORY"),
          directory_of_service("STATE_DIRECTORY"),
          path("GPUYARD_SOCKET"),
          variable("GPUYARD_HOST"),
          variable("GPUYARD_TOKEN"),
          path("GPUYARD_TOKEN_FILE"),
          environment_variable("GPUYARD_SYSTEM_SERVICE") == "1"};
}

std::optional<std::string> expand_home(std::string_view path, std::string_view home) {
  const bool at_home = path == "~" || path.starts_with("~/");
  if (!at_home || home.empty()) return std::nullopt;
  return std::string(home) + std::string(path.substr(1));
}

Result<std::string> absolute_path(std::string_view path, std::string_view home) {
  if (path.starts_with('/')) return std::string(path);
  if (auto there = expand_home(path, home)) return *std::move(there);
  if (path == "~" || path.starts_with("~/")) {
    return Error{
        Errc::invalid,
        fmt::format("\"{}\": no home directory, because HOME is not set; use an absolute path",
                    printable(path))};
  }
  return Error{
      Errc::invalid,
      fmt::format("\"{}\" is not an absolute path; it must begin with / or ~/", printable(path))};
}

std::vector<std::string> default_config_files(const Environment& environment) {
  if (!environment.service_configuration.empty()) {
    return {environment.service_configuration + "/gpuyard.toml"};
  }
  std::vector<std::string> files = {"/etc/gpuyard/gpuyard.toml"};
  if (!environment.xdg_config_home.empty()) {
    files.push_back(environment.xdg_config_home + "/gpuyard/gpuyard.toml");
  } else if (!environment.home.empty()) {
    files.push_back(environment.home + "/.config/gpuyard/gpuyard.toml");
  }
  return files;
}

std::string hosts_file(const Environment& environment) {
  return parent_directory(default_config_files(environment).back()) + "/hosts.toml";
}

std::string default_socket(const Environment& environment) {
  if (!environment.gpuyard_socket.empty()) return environment.gpuyard_socket;
  return runtime_directory(environment) + kSocket;
}

std::string default_state_directory(const Environment& environment) {
  if (!environment.service_state.empty()) return environment.service_state;
  if (environment.is_root()) return "/var/lib/gpuyard";
  if (!environment.xdg_state_home.empty()) return environment.xdg_state_home + "/gpuyard";
  if (!environment.home.empty()) return environment.home + "/.local/state/gpuyard";
  return runtime_directory(environment) + "/state";
}

std::string fallback_directory(const Environment& environment) {
  return "/tmp/gpuyard-" + std::to_string(environment.uid);
}

bool is_in_fallback_directory(const Environment& environment, const std::string& path) {
  const std::string fallback = fallback_directory(environment);
  return path == fallback || path.starts_with(fallback + "/");
}

std::vector<std::string> candidate_sockets(const Environment& environment) {
  if (!environment.gpuyard_socket.empty()) return {environment.gpuyard_socket};
  std::vector<std::string> sockets = {std::string(kSystemRuntime) + kSocket};
  const std::string own = runtime_directory(environment) + kSocket;
  if (own != sockets.front()) sockets.push_back(own);
  return sockets;
}

}  // namespace gpuyard
