// What a user may set, as one validated plain struct. Knows no TOML, no flag and no room.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "base/shares.h"

namespace gpuyard::config {

struct Config {
  struct Server {
    std::vector<std::string> listen = {"127.0.0.1:9410"};
    std::string socket;  // load() fills an empty one
    std::string lease_socket = "auto";
    std::vector<std::string> allowed_hosts;
  } server;
  struct State {
    std::string directory;  // load() fills an empty one
  } state;
  struct Driver {
    std::string nvml;  // empty: the loader's own search
  } driver;
  struct Processes {
    std::string proc_root = "/proc";
  } processes;
  // At which core temperatures a GPU stops being healthy, in degrees Celsius.
  struct Temperatures {
    std::int64_t degraded = 75;
    std::int64_t unhealthy = 85;

    friend bool operator==(const Temperatures&, const Temperatures&) = default;
  };
  struct Health {
    Temperatures common;
    std::map<std::string, Temperatures> of_gpu;  // by index, UUID or PCI address
  } health;
  struct Events {
    std::string kernel_log = "/dev/kmsg";  // empty: it is not read
  } events;
  // zeusd's protocol, for programs that use the Zeus framework; off while it listens nowhere.
  struct Zeus {
    std::string socket;
    std::vector<std::string> listen;
    std::string rapl_root = "/sys/class/powercap";
    bool cpu_over_tcp = false;

    bool on() const { return !socket.empty() || !listen.empty(); }
  } zeus;
  struct Metrics {
    enum class Dialect { gpuyard, dcgm, both };
    std::string prefix = "gpuyard";
    Dialect dialect = Dialect::gpuyard;
  } metrics;
  // Whether and how GPUs may be changed, and not only watched.
  struct Control {
    enum class OnStop { keep, restore };
    bool enabled = false;
    std::string group = "gpuyard";  // may control over the Unix socket; empty: nobody but admins
    OnStop on_stop = OnStop::keep;  // what becomes of settings when the daemon ends
    // Argument vector; {index}, {uuid} and {pci} in it are those of the GPU. Empty: no resets.
    std::vector<std::string> reset_command = {"nvidia-smi", "--gpu-reset", "-i", "{uuid}"};
    std::int64_t reset_timeout_s = 60;
    static constexpr std::int64_t kLongestReset = 3600;  // seconds
  } control;
  // Who may have which GPU.
  struct Lease {
    enum class Fair { backfill, strict };
    Fair fair = Fair::backfill;
    std::int64_t most_gpus_per_user = 0;  // at a time; 0: no limit
    bool end_overdue = false;             // a lease held longer than was said is ended
    bool may_control = true;              // holders may set power and clocks of their GPUs
    static constexpr std::int64_t kMostGpus = 256;
  } lease;
  Shares shares = {};
  // What is an alert, and who is told.
  struct Alerts {
    std::string file;  // load() fills an empty one with alerts.toml beside the configuration
  } alerts;
  struct Log {
    log::Level level = log::Level::info;
  } log;
};

// The environment as far as configuration looks at it; a test makes its own.
struct Environment {
  unsigned uid = 65534;  // the effective one
  std::string home;
  std::string xdg_config_home;
  std::string xdg_runtime_dir;
  std::string xdg_state_home;
  std::string gpuyard_socket;

  bool root() const { return uid == 0; }

  static Environment of_process();
};

// Where the system's and the user's configuration files are, in the order in which they are read.
std::vector<std::string> default_files(const Environment&);

// Where a daemon of this user puts its socket and its state: /run/gpuyard and /var/lib/gpuyard for
// root, the XDG directories for others.
std::string default_socket(const Environment&);
std::string default_state_directory(const Environment&);

// Where nobody may more than lease; "": nowhere. "auto" is lease.sock beside gpuyard.sock, and
// x.lease.sock beside x.sock.
std::string lease_socket_of(const Config::Server&);

// /tmp/gpuyard-<uid>, which stands in for a runtime directory where there is none. In /tmp anybody
// may have made it first: a daemon makes it with make_private_directory(), and a client asks
// check_private_directory() before it believes what it finds there.
std::string fallback_directory(const Environment&);

// Whether `path` is the fallback directory or in it.
bool in_fallback_directory(const Environment&, const std::string& path);

// Sockets on which a client looks for a daemon, best first.
std::vector<std::string> sockets_to_try(const Environment&);

// The configuration in force: defaults, then files, later ones winning.

// Applies one TOML text. Errc::invalid names file, line and key: "x.toml:3: unknown key ...".
// All or nothing: on an error `config` is as before.
Result<void> apply_toml(Config& config, std::string_view text, const std::string& file);

// Reads `file`, or where that is empty the default files that exist, over the defaults.
Result<Config> load(const Environment&, const std::string& file);

// `config` with the places filled in that depend on the user.
Config with_places(Config config, const Environment&);

// The files load() would read now, whether they exist or not.
std::vector<std::string> files_read(const Environment&, const std::string& file);

}  // namespace gpuyard::config
