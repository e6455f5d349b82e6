#include "daemon/serve.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "base/trusted_file.h"
#include "base/try.h"
#include "core/processes/user_names.h"
#include "daemon/alert_config.h"
#include "daemon/config_check.h"
#include "daemon/confinement.h"
#include "daemon/daemon.h"
#include "daemon/descriptor_budget.h"
#include "io/http/endpoint.h"

namespace gpuyard::daemon {
namespace {

constexpr unsigned kPrivateDirectoryMode = 0700;
constexpr const char* kPackageUser = "_gpuyard";

// When a terminal is closed, its processes lose it and get SIGHUP.
bool has_terminal() {
  return UniqueFd(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)).get() >= 0;
}

}  // namespace

Result<void> make_daemon_directory(const std::string& directory, unsigned mode,
                                   const Environment& environment) {
  if (is_in_fallback_directory(environment, directory)) {
    if (auto own = make_private_directory(fallback_directory(environment)); !own) {
      Error error = std::move(own).error();
      error.message += "; set XDG_RUNTIME_DIR, or choose other paths with --socket and --state";
      return error;
    }
  }
  return make_directories(directory, mode);
}

Result<void> check_trusted_path(const std::string& path, std::string_view why) {
  std::vector<uid_t> owners = {0, ::geteuid()};
  auto trusted = check_trusted_by(owners, path, why);
  if (trusted) return trusted;
  const auto packaged = processes::look_up_uid(kPackageUser);
  if (!packaged) return trusted;
  owners.push_back(*packaged);
  return check_trusted_by(owners, path, why);
}

Result<std::string> listen_on_address(http::Server& server, const std::string& address) {
  const auto endpoint = GPUYARD_TRY(http::parse_endpoint(address));
  const auto bound = GPUYARD_TRY(server.listen_tcp(endpoint.address, endpoint.port));
  return "http://" + http::Endpoint::tcp(bound.address, bound.port).text();
}

Result<std::string> listen_on_socket(http::Server& server, const std::string& socket,
                                     std::string_view directory) {
  auto made =
      make_daemon_directory(parent_directory(socket), kPublicDirectoryMode, Environment::current());
  if (made) made = check_trusted_path(parent_directory(socket), "clients trust the socket in it");
  if (!made) return std::move(made).error().in(directory);
  GPUYARD_TRY(server.listen_unix(socket));
  return socket;
}

Result<UniqueFd> lock_state(const std::string& directory) {
  const auto environment = Environment::current();
  if (auto made = make_daemon_directory(directory, kPrivateDirectoryMode, environment); !made) {
    return std::move(made).error().in("the state directory");
  }
  if (auto own = check_trusted_path(directory, "it has tokens and leases"); !own) {
    return std::move(own).error().in("the state directory");
  }
  auto lock = lock_file(directory + "/lock");
  if (!lock && lock.error().code == Errc::conflict) {
    const auto pid = read_file(directory + "/lock", 64);
    return Error{Errc::conflict,
                 fmt::format("another gpuyard{} is already running with the state directory {}; "
                             "stop it, or use a different --state and --socket",
                             pid && !pid->empty() ? " (PID " + *pid + ")" : "", directory)};
  }
  if (!lock && lock.error().code == Errc::denied) {
    return Error{Errc::denied, "permission denied: state directory " + directory,
                 lock.error().text(),
                 fmt::format("sudo chown -R --reference={0} {0}  # if root ran the daemon here",
                             quote_shell_word(directory))};
  }
  if (!lock) return lock;
  // The pid is for the error of another daemon. On a full disk that one must do without it.
  const std::string pid = std::to_string(::getpid());
  const bool written =
      ::ftruncate(lock->get(), 0) == 0 && ::pwrite(lock->get(), pid.data(), pid.size(), 0) > 0;
  if (!written)
    log::warning("the PID of this process could not be written to {}/lock: {}", directory,
                 std::strerror(errno));
  return lock;
}

Result<void> serve(const ServeOptions& options) {
  GPUYARD_TRY(check_config(options.config));
  const rlim_t initial_descriptors = raise_descriptor_limit();
  GPUYARD_TRY(check_descriptors(descriptor_limit()));
  // SIGXFSZ: a write over the file size limit fails as it does on a full disk.
  for (const int meaningless : {SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM, SIGXFSZ}) {
    ::signal(meaningless, SIG_IGN);
  }

  const std::vector<std::string> lacking = confine(options.config, options.files);

  http::IoLoop loop;
  auto alerts = GPUYARD_TRY(read_alert_config(options.config));
  Daemon instance(loop, options, std::move(alerts), initial_descriptors);
  instance.add_missing_restrictions(lacking);
  GPUYARD_TRY(instance.listen());
  const bool had_terminal = has_terminal();
  bool stopping = false;
  const Subscription signals = loop.watch_signals({SIGTERM, SIGINT, SIGHUP}, [&](int number) {
    if (number == SIGHUP && (!had_terminal || has_terminal())) return instance.reload();
    if (std::exchange(stopping, true)) return loop.stop();  // asked twice: at once
    log::info("stopping");
    instance.stop([&loop] { loop.stop(); });
  });
  instance.start();
  for (const std::string& address : instance.listen_addresses())
    log::info("listening on {}", address);
  loop.run();
  return {};
}

}  // namespace gpuyard::daemon
