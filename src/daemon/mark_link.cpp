#include "daemon/mark_link.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/capabilities.h"
#include "base/clock.h"
#include "base/command_host.h"
#include "base/files.h"
#include "base/helper_socket.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/spawn.h"
#include "base/trusted_file.h"
#include "base/try.h"
#include "core/processes/mark_host.h"
#include "faces/cpu/rapl.h"
#include "io/notify/sink_config.h"

namespace gpuyard::daemon {
namespace {

constexpr std::uint64_t kEnvironmentCapabilities =
    capability_bit(CAP_SYS_PTRACE) | capability_bit(CAP_DAC_READ_SEARCH);

bool can_read_environments() {
  return (effective_capabilities() & kEnvironmentCapabilities) == kEnvironmentCapabilities;
}

// Starts the child with the capabilities of this process that it needs. Without any, it starts
// without the daemon's restrictions: under Landlock it could not read even its own user's files.
Result<processes::MarkLink> start_marks(const std::string& proc_root) {
  auto pair = make_socket_pair();
  if (!pair) return Error(pair.error()).in("gpuyard-marks");
  const SpawnOptions options{.arguments = {std::string(kMarksVerb), proc_root},
                             .passed_fds = {pair->theirs.get()},  // stderr is its log
                             .capabilities = kEnvironmentCapabilities};
  const auto child = can_read_environments() ? spawn(options) : spawn_unconfined(options);
  if (!child) return Error(child.error()).in("gpuyard-marks");
  return processes::MarkLink{std::move(pair->ours), *child};
}

Result<processes::MarkLink> connect_to_marks(const std::string& path) {
  auto socket = GPUYARD_TRY(connect_to_helper(path));
  return processes::MarkLink{std::move(socket)};
}

std::string configured_proc_root() {
  const auto config = config::load(Environment::current(), "");
  if (config) return config->processes.proc_root;
  log::warning("gpuyard-marks uses its defaults: {}", config.error().text());
  return config::Config{}.processes.proc_root;
}

void add_energy_counters(const std::string& root, std::vector<std::string>& files) {
  for (std::uint32_t package = 0; package < cpu::Rapl::kMaxPackages; ++package) {
    const std::string zone = fmt::format("{}/intel-rapl:{}", root, package);
    files.push_back(zone + "/energy_uj");
    for (std::uint32_t part = 0; part < cpu::Rapl::kMaxSubzones; ++part) {
      files.push_back(fmt::format("{}/intel-rapl:{}:{}/energy_uj", zone, package, part));
    }
  }
}

// A reader that is refused a file asks again soon, at each reading perhaps.
class RecentRefusals {
 public:
  static constexpr Duration kRetryDelay = std::chrono::seconds(5);

  bool is_recent(const std::string& path) {
    const MutexLock lock(mutex_);
    const auto last = refused_at_.find(path);
    return last != refused_at_.end() && BootClock::now() - last->second < kRetryDelay;
  }
  void record(const std::string& path) {
    constexpr std::size_t kMaxPaths = 1024;
    const MutexLock lock(mutex_);
    if (refused_at_.size() >= kMaxPaths) refused_at_.clear();
    refused_at_[path] = BootClock::now();
  }

 private:
  Mutex mutex_;
  std::map<std::string, TimePoint> refused_at_ GUARDED_BY(mutex_);
};

}  // namespace

void open_files_by_marks(const std::string& marks_socket) {
  set_denied_file_opener([marks_socket, refusals = std::make_shared<RecentRefusals>()](
                             const std::string& path) -> Result<UniqueFd> {
    if (refusals->is_recent(path)) return Error{Errc::denied, "it was refused a moment ago"};
    auto file = processes::request_file([&] { return connect_to_marks(marks_socket); }, path);
    if (!file) refusals->record(path);
    return file;
  });
}

std::vector<std::string> files_opened_by_marks(const Environment& environment) {
  constexpr std::size_t kMaxFileBytes = std::size_t{256} * 1024;
  std::vector<std::string> files = default_config_files(environment);
  const auto is_roots = [](const std::string& file) {
    const auto checked = check_only_root_can_change(file);
    return checked || checked.error().code == Errc::not_found;
  };
  if (!std::ranges::all_of(files, is_roots)) return {};
  const auto config = config::load(environment, "");
  if (!config) return files;
  files.push_back(config->alerts.file);
  const auto alerts = read_file(config->alerts.file, kMaxFileBytes);
  if (alerts && is_roots(config->alerts.file)) {
    const auto secrets = notify::referenced_files(*alerts, config->alerts.file);
    files.insert(files.end(), secrets.begin(), secrets.end());
  }
  files.insert(files.end(), {config->tls.certificate, config->tls.key, config->tls.client_ca,
                             config->events.kernel_log});
  if (config->zeus.is_enabled()) add_energy_counters(config->zeus.rapl_root, files);
  std::erase_if(files, [](const std::string& file) { return !file.starts_with('/'); });
  return files;
}

std::shared_ptr<processes::MarkClient> make_mark_client(const config::Config& config) {
  processes::MarkClient::Connector open = [root = config.processes.proc_root,
                                           path = config.processes.marks_socket,
                                           service = Environment::current().system_service] {
    if (can_read_environments()) return start_marks(root);
    auto link = connect_to_marks(path);
    // The daemon of a user can do without the service: its leases are of this user.
    return link || service ? std::move(link) : start_marks(root);
  };
  return std::make_shared<processes::MarkClient>(std::move(open));
}

void run_marks(const std::vector<std::string>& arguments) {
  ::prctl(PR_SET_NAME, "gpuyard-marks");
  UniqueFd socket(processes::kMarkSocketFd);
  if (::fcntl(socket.get(), F_SETFD, FD_CLOEXEC) != 0) {
    log::error("gpuyard-marks is started by `gpuyard serve` or by its unit, not by hand");
    ::_exit(2);
  }
  if (const auto daemon = check_daemon(socket.get()); !daemon) {
    log::error("gpuyard-marks serves its daemon only: {}", daemon.error().text());
    ::_exit(2);
  }
  const bool child = !arguments.empty();
  if (child) {
    // Only the daemon decides when its child ends.
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, SIG_IGN);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  }
  const processes::MarkRoots roots{std::string(processes::kProcRoot),
                                   child ? arguments.front() : configured_proc_root()};
  // A daemon with capabilities opens its files itself.
  const auto files =
      child ? std::vector<std::string>() : files_opened_by_marks(Environment::current());
  processes::confine_marks(!child);
  processes::serve_marks(std::move(socket), roots, files);
  ::_exit(0);
}

}  // namespace gpuyard::daemon
