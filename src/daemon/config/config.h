// The settings of the user, as one validated plain struct. Knows no TOML, no flag and no room.
//
// The configuration in force: defaults, then files, later ones winning.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/result.h"

namespace gpuyard::config {

struct Config {
  struct Server {
    std::vector<std::string> listen = {"127.0.0.1:9410"};
    std::string socket;  // load() fills an empty one
    std::string lease_socket = "auto";
    std::vector<std::string> allowed_hosts;
    // The addresses beyond loopback at which plain TCP is meant, however little it protects.
    std::vector<std::string> insecure_read_only;
  } server;
  // HTTPS, for programs of other machines.
  struct Tls {
    enum class Anonymous : std::uint8_t { none, metrics, read };
    std::vector<std::string> listen;
    std::string certificate;  // PEM, with those between it and its root; empty: see below
    std::string key;          // the same
    std::string client_ca;    // PEM; empty: no client certificates
    std::vector<std::string>
        clients;  // "DNS:prometheus.lab = metrics", "URI:spiffe://lab/ci = ..."
    std::vector<std::string> revoked;       // fingerprints of client certificates
    Anonymous anonymous = Anonymous::none;  // what a caller without a token may do
  } tls;
  struct State {
    std::string directory;  // load() fills an empty one
  } state;
  struct Driver {
    std::string nvml;  // empty: the loader's own search
  } driver;
  struct Telemetry {
    static constexpr std::int64_t kMaxInterval = 10;
    std::int64_t interval_s = 1;
    std::string pci_root = "/sys/bus/pci/devices";
  } telemetry;
  struct Processes {
    std::string proc_root = "/proc";
    std::string marks_socket = "/run/gpuyard-marks.sock";
  } processes;
  // Core temperatures at which a GPU stops being healthy, in degrees Celsius.
  struct Temperatures {
    std::int64_t degraded = 75;
    std::int64_t unhealthy = 85;

    friend bool operator==(const Temperatures&, const Temperatures&) = default;
  };
  struct Health {
    Temperatures common;
    std::map<std::string, Temperatures> of_gpu;  // by index, UUID or PCI address
  } health;
  // The cost of energy, for estimates.
  struct Energy {
    double price_per_kwh = 0;  // 0: not known
    std::string currency = "EUR";
    double g_co2_per_kwh = 0;  // 0: not known
  } energy;
  // When a reading counts as the reason why a GPU is slow.
  struct Bottleneck {
    std::int64_t least_share_percent = 10;
    std::int64_t starved_below_percent = 40;
    std::int64_t waiting_power_percent = 35;
    std::int64_t idle_after_s = 60;
    std::int64_t memory_full_percent = 98;
    static constexpr std::int64_t kMaxIdle = 86'400;  // seconds
  } bottleneck;
  struct Events {
    std::string kernel_log = "/dev/kmsg";  // empty: the kernel log is not read
  } events;
  // zeusd's protocol, for programs that use the Zeus framework; off if it listens nowhere.
  struct Zeus {
    std::string socket;
    std::vector<std::string> listen;
    std::string rapl_root = "/sys/class/powercap";
    bool cpu_over_tcp = false;

    bool is_enabled() const { return !socket.empty() || !listen.empty(); }
  } zeus;
  struct Metrics {
    enum class Dialect { gpuyard, dcgm, both };
    enum class Profile { full, minimal };
    std::string prefix = "gpuyard";
    Dialect dialect = Dialect::gpuyard;
    Profile profile = Profile::full;
  } metrics;
  // Whether and how GPUs may be changed.
  struct Control {
    enum class OnStop { keep, restore };
    bool enabled = false;
    std::string group = "gpuyard";  // may control over the Unix socket; empty: only admins
    OnStop on_stop = OnStop::keep;  // what happens to settings when the daemon ends
    // Argument vector; {index}, {uuid} and {pci} are replaced by the GPU's. Empty: no resets.
    std::vector<std::string> reset_command = {"nvidia-smi", "--gpu-reset", "-i", "{uuid}"};
    std::int64_t reset_timeout_s = 60;
    static constexpr std::int64_t kMaxReset = 3600;  // seconds
    // Bounds of the power limit of every GPU, in watts, within the range of the driver; 0: none.
    std::int64_t lowest_w = 0;
    std::int64_t highest_w = 0;
    static constexpr std::int64_t kMaxWatts = 100'000;
    std::int64_t gpu_changes_a_minute = 240;  // of each GPU, by all users
  } control;
  // The rules of leasing.
  struct Lease {
    enum class Mode { automatic, grant, observe };
    Mode mode = Mode::automatic;
    enum class Fair { backfill, strict };
    Fair fair = Fair::backfill;
    enum class Through { daemon, slurm };
    Through through = Through::daemon;    // where `gpuyard run` gets its GPUs
    std::int64_t most_gpus_per_user = 0;  // at a time; 0: no limit
    bool end_overdue = false;             // ends a lease that is held longer than announced
    bool may_control = true;              // holders may set power and clocks of their GPUs
    static constexpr std::int64_t kMaxGpus = 256;
  } lease;
  UserQuotas shares = {};
  // The file of alert rules and sinks.
  struct Alerts {
    std::string file;  // load() fills an empty one with alerts.toml beside the configuration
  } alerts;
  struct Log {
    log::Level level = log::Level::info;
  } log;
  // The place where each key was set last, for errors: "server.listen" at "gpuyard.toml:3".
  std::map<std::string, std::string> set_at = {};

  // "gpuyard.toml:3: server.listen", or the key alone where no file sets it.
  std::string location_of(const std::string& key) const;
  // The files of the certificate and the key: by default those that `gpuyard tls init` makes.
  std::string certificate_file() const;
  std::string key_file() const;
};

// Returns the socket on which callers may lease but do no more; "": there is none. "auto" is
// lease.sock beside gpuyard.sock, and x.lease.sock beside x.sock.
std::string lease_socket_of(const Config::Server&);

// Applies one TOML text. Errc::invalid names file, line and key: "x.toml:3: unknown key ...".
// All or nothing: on an error `config` is as before. `home` replaces ~ in paths; "": there is none.
Result<void> apply_toml(Config& config, std::string_view text, const std::string& file,
                        const std::string& home = "");

// Reads `file` over the defaults; if `file` is empty, the default files that exist.
Result<Config> load(const Environment&, const std::string& file);

// Returns `config` with the places filled in that depend on the user.
Config with_default_paths(Config config, const Environment&);

// Returns the files that load() would read now, whether they exist or not.
std::vector<std::string> config_files(const Environment&, const std::string& file);

// Renders TOML with every key, its meaning and its value; commented out for `config init`.
enum class Style { values, commented_template };
std::string render(const Config&, Style);

// Returns a digest of each section that is not as by default; without the sections that are of one
// machine alone (addresses, directories, certificates). The same section has the same digest on
// every machine with the same program.
std::map<std::string, std::string> section_digests(const Config&);

}  // namespace gpuyard::config
