#include "daemon/confinement.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include "base/capabilities.h"
#include "base/command_host.h"
#include "base/denied_calls.h"
#include "base/files.h"
#include "base/log.h"
#include "daemon/config_reloader.h"
#include "daemon/serve.h"
#include "io/http/endpoint.h"
#include "io/notify/sink_config.h"

namespace gpuyard::daemon {
namespace {

// The name services of the C library read their configuration, load modules, and have caches and
// sockets; the resolver and OpenSSL have files in /etc and /run.
constexpr const char* kSystemPaths[] = {"/etc",
                                        "/usr",
                                        "/lib",
                                        "/lib64",
                                        "/nix/store",
                                        "/run",
                                        "/var/lib/sss",
                                        "/var/lib/extrausers",
                                        "/var/cache/nscd",
                                        "/proc",
                                        "/sys"};

// Adds the directory, because a renewed file is another file in its place, and the directory of
// what it links to. The root directory would be every file.
void add_file(std::vector<std::string>& readable, const std::string& file) {
  if (!file.starts_with('/')) return;
  std::error_code failed;
  for (const std::string& name : {file, std::filesystem::canonical(file, failed).string()}) {
    const std::string directory = name.empty() ? name : parent_directory(name);
    if (!directory.empty()) readable.push_back(directory == "/" ? name : directory);
  }
}

// Returns the driver's device files: the driver-host starts elsewhere, but within this process's
// limits if the process that starts commands has ended.
std::vector<std::string> device_files() {
  std::vector<std::string> found = {"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"};
  std::error_code failed;
  for (auto one = std::filesystem::directory_iterator("/dev", failed);
       !failed && one != std::filesystem::directory_iterator(); one.increment(failed)) {
    if (one->path().filename().string().starts_with("nvidia")) found.push_back(one->path());
  }
  return found;
}

std::vector<std::string> secrets_of_sinks(const std::string& file) {
  constexpr std::size_t kMaxFileBytes = std::size_t{256} * 1024;
  const auto text = read_file(file, kMaxFileBytes);
  return text ? notify::referenced_files(*text, file) : std::vector<std::string>();
}

Result<void> allow_own_files(const config::Config& config, const std::vector<std::string>& files) {
  const AllowedFiles allowed = files_of_daemon(config, files);
  // A directory that does not exist yet could not be allowed. Its use reports the error.
  const auto environment = Environment::current();
  for (const std::string& directory : allowed.writable) {
    static_cast<void>(make_daemon_directory(directory, kPublicDirectoryMode, environment).ok());
  }
  return allow_only_files(allowed);
}

}  // namespace

AllowedFiles files_of_daemon(const config::Config& config, const std::vector<std::string>& files) {
  AllowedFiles allowed;
  allowed.readable.assign(std::begin(kSystemPaths), std::end(kSystemPaths));
  allowed.readable.push_back(config.processes.proc_root);
  allowed.readable.push_back(config.telemetry.pci_root);
  allowed.readable.push_back(config.zeus.rapl_root);
  allowed.readable.push_back(config.events.kernel_log);
  for (const std::string& file : files) add_file(allowed.readable, file);
  add_file(allowed.readable, config.alerts.file);
  add_file(allowed.readable, config.driver.nvml);
  for (const std::string& file : secrets_of_sinks(config.alerts.file)) {
    add_file(allowed.readable, file);
  }
  for (const std::string& file :
       {config.certificate_file(), config.key_file(), config.tls.client_ca}) {
    add_file(allowed.readable, file);
  }
  allowed.writable.push_back(config.state.directory);
  for (const std::string& socket :
       {config.server.socket, config::lease_socket_of(config.server), config.zeus.socket}) {
    if (!socket.empty()) allowed.writable.push_back(parent_directory(socket));
  }
  allowed.devices = device_files();
  return allowed;
}

std::vector<std::string> confine(const config::Config& config,
                                 const std::vector<std::string>& files) {
  std::vector<std::string> lacking;
  const auto note = [&lacking](std::string_view what, const Error& why) {
    lacking.push_back(fmt::format("{}: {}", what, why.text()));
    log::warning("{}", lacking.back());
  };
  if (auto started = start_command_host(); !started) {
    note("commands of alerts and resets have the daemon's own restrictions", started.error());
  }
  if (auto denied = deny_unused_calls(NewPrivileges::droppable); !denied) {
    note("the daemon runs without a seccomp filter of its own", denied.error());
  }
  if (!has_privileges()) {
    if (auto allowed = allow_own_files(config, files); !allowed) {
      note("the daemon is not restricted to its own files by Landlock", allowed.error());
    }
  }
  const bool root = ::geteuid() == 0;
  if (root && config.control.enabled && !config.control.reset_command.empty() &&
      (effective_capabilities() & capability_bit(CAP_SYS_ADMIN)) == 0) {
    note("resets start without CAP_SYS_ADMIN, which nvidia-smi needs",
         {Errc::denied, "set CapabilityBoundingSet=CAP_SYS_ADMIN where User=root is set"});
  }
  // Other processes of this user, such as commands of alerts, cannot trace the service. A daemon
  // that a user started can be debugged.
  if (Environment::current().system_service) ::prctl(PR_SET_DUMPABLE, 0);
  return lacking;
}

}  // namespace gpuyard::daemon
