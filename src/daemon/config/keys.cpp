#include "daemon/config/keys.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <boost/mp11/algorithm.hpp>

#include "base/text.h"
#include "base/try.h"

namespace gpuyard::config {
namespace {

using Strings = std::vector<std::string>;

// Gets and sets a member without further checks. `Members` lead to it: the struct of its section,
// a member of that, and so on.
template <auto... Members>
Value get_member(const Config& config) {
  return (config.*....*Members);
}
template <auto... Members>
Result<void> set_member(Config& config, const Value& value) {
  auto& member = (config.*....*Members);
  member = std::get<std::remove_reference_t<decltype(member)>>(value);
  return {};
}

// Makes the key of a member of its section's struct. `set` is for values that need more than the
// right type.
template <auto... Members>
constexpr Key member(std::string_view section, std::string_view name, std::string_view help,
                     Result<void> (*set)(Config&, const Value&) = &set_member<Members...>) {
  using Kept = std::remove_cvref_t<decltype((std::declval<Config&>().*....*Members))>;
  constexpr auto kType = static_cast<Type>(boost::mp11::mp_find<Value, Kept>::value);
  return {section, name, false, help, kType, &get_member<Members...>, set};
}

template <auto... Members>
constexpr Key path(std::string_view section, std::string_view name, std::string_view help,
                   Path which = Path::file) {
  Key key = member<Members...>(section, name, help);
  key.path = which;
  return key;
}

// The words of each enumeration, in its order.
constexpr std::array<std::string_view, 2> kOnStop = {"keep", "restore"};
constexpr std::array<std::string_view, 3> kModes = {"auto", "grant", "observe"};
constexpr std::array<std::string_view, 2> kFairnessModes = {"backfill", "strict"};
constexpr std::array<std::string_view, 2> kThrough = {"daemon", "slurm"};
constexpr std::array<std::string_view, 3> kDialects = {"gpuyard", "dcgm-4.8", "both"};
constexpr std::array<std::string_view, 2> kProfiles = {"full", "minimal"};
constexpr std::array<std::string_view, 3> kAnonymous = {"none", "metrics", "read"};
constexpr std::array<std::string_view, 4> kLevels = {"debug", "info", "warning", "error"};

// Gets and sets a member whose values are words.
template <auto Section, auto Member, const auto& Words>
Value get_word(const Config& config) {
  return std::string(Words.at(static_cast<std::size_t>(config.*Section.*Member)));
}
template <auto Section, auto Member, const auto& Words>
Result<void> set_word(Config& config, const Value& value) {
  const auto& name = std::get<std::string>(value);
  const auto* const found = std::ranges::find(Words, name);
  if (found == Words.end()) {
    return Error{Errc::invalid,
                 fmt::format("expected {}; got \"{}\"", join_with_or(Words), printable(name))};
  }
  auto& word = config.*Section.*Member;
  word = static_cast<std::remove_reference_t<decltype(word)>>(found - Words.begin());
  return {};
}
template <auto Section, auto Member, const auto& Words>
constexpr Key word(std::string_view section, std::string_view name, std::string_view help) {
  constexpr auto kGet = &get_word<Section, Member, Words>;
  return {section, name, false, help, Type::text, kGet, &set_word<Section, Member, Words>};
}

using Temperatures = Config::Temperatures;

// Sets a whole number within bounds. `Least` as words: "0 (no limit)".
template <std::int64_t Least, std::int64_t Most, auto... Members>
Result<void> set_bounded(Config& config, const Value& value) {
  const auto number = std::get<std::int64_t>(value);
  if (number < Least || number > Most) {
    return Error{Errc::invalid,
                 fmt::format("expected {} to {}; got {}",
                             Least == 0 ? "0 (no limit)" : std::to_string(Least), Most, number)};
  }
  (config.*....*Members) = number;
  return {};
}
template <std::int64_t Least, std::int64_t Most, auto... Members>
constexpr Key bounded(std::string_view section, std::string_view name, std::string_view help) {
  return member<Members...>(section, name, help, &set_bounded<Least, Most, Members...>);
}

constexpr std::int64_t kMaxShare = 1'000'000;
template <auto Member>
constexpr Key share(std::string_view name, std::string_view help) {
  return bounded<1, kMaxShare, &Config::shares, Member>("shares", name, help);
}

// Reads "3 = 80/90".
std::optional<std::pair<std::string, Temperatures>> temperatures_of(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::size_t slash = text.find('/');
  if (equals == text.npos || slash == text.npos || slash < equals) return std::nullopt;
  const std::string_view gpu = trim(text.substr(0, equals));
  const auto degraded =
      parse_number<std::int64_t>(trim(text.substr(equals + 1, slash - equals - 1)));
  const auto unhealthy = parse_number<std::int64_t>(trim(text.substr(slash + 1)));
  if (gpu.empty() || !degraded || !unhealthy) return std::nullopt;
  return std::pair(std::string(gpu), Temperatures{*degraded, *unhealthy});
}

Value get_temperatures_of(const Config& config) {
  Strings all;
  for (const auto& [gpu, own] : config.health.of_gpu) {
    all.push_back(fmt::format("{} = {}/{}", gpu, own.degraded, own.unhealthy));
  }
  return all;
}
Result<void> set_temperatures_of(Config& config, const Value& value) {
  std::map<std::string, Temperatures> all;
  for (const std::string& text : std::get<Strings>(value)) {
    auto one = temperatures_of(text);
    if (!one) {
      return Error{Errc::invalid,
                   fmt::format("expected GPU = DEGRADED/UNHEALTHY, such as 3 = 80/90; got \"{}\"",
                               printable(text))};
    }
    if (!all.insert(*std::move(one)).second) {
      return Error{Errc::invalid, fmt::format("\"{}\" names a GPU twice", text)};
    }
  }
  config.health.of_gpu = std::move(all);
  return {};
}

constexpr std::array<std::string_view, 3> kGpuNames = {"{index}", "{uuid}", "{pci}"};

// Refuses an unknown word in braces: it would reach the command as it is, which then resets nothing
// or another GPU.
Result<void> check_word(std::string_view word) {
  for (std::size_t open = word.find('{'); open != word.npos; open = word.find('{', open + 1)) {
    const std::size_t close = word.find('}', open);
    const std::string_view name = word.substr(open, close == word.npos ? close : close - open + 1);
    if (std::ranges::find(kGpuNames, name) != kGpuNames.end()) continue;
    return Error{
        Errc::invalid,
        fmt::format("unknown placeholder \"{}\"; use {{index}}, {{uuid}} or {{pci}}", name)};
  }
  return {};
}

Result<void> set_reset_command(Config& config, const Value& value) {
  const auto& words = std::get<std::vector<std::string>>(value);
  if (!words.empty() && words.front().empty()) {
    return Error{Errc::invalid, "the first word, the program, is empty"};
  }
  for (const std::string& word : words) {
    GPUYARD_TRY(check_word(word));
  }
  config.control.reset_command = words;
  return {};
}

template <auto Member>
Result<void> set_tariff(Config& config, const Value& value) {
  constexpr double kMaxTariff = 1e6;
  const auto number = std::get<double>(value);
  if (!(number >= 0 && number <= kMaxTariff)) {
    return Error{Errc::invalid,
                 fmt::format("expected 0 (unknown) to {}; got {}", kMaxTariff, number)};
  }
  config.energy.*Member = number;
  return {};
}

// Shown beside numbers on every screen: a word or a sign.
Result<void> set_currency(Config& config, const Value& value) {
  const auto& text = std::get<std::string>(value);
  constexpr std::size_t kMaxCurrencyBytes = 16;
  if (text.empty() || text.size() > kMaxCurrencyBytes || printable(text) != text) {
    return Error{Errc::invalid,
                 fmt::format("expected a word or symbol of 1 to {} bytes; got \"{}\"",
                             kMaxCurrencyBytes, printable(text))};
  }
  config.energy.currency = text;
  return {};
}

template <auto Member, std::int64_t Most = 100>
constexpr Key bottleneck(std::string_view name, std::string_view help) {
  return bounded<1, Most, &Config::bottleneck, Member>("bottleneck", name, help);
}

Result<void> set_tls_clients(Config& config, const Value& value) {
  for (const std::string& text : std::get<Strings>(value)) {
    GPUYARD_TRY(certificate_role_of(text));
  }
  config.tls.clients = std::get<Strings>(value);
  return {};
}

constexpr Key live(Key key) {
  key.live = true;
  return key;
}

constexpr std::array kKeys = {
    member<&Config::server, &Config::Server::listen>(
        "server", "listen", "TCP addresses to listen on; read-only access. [] for none."),
    path<&Config::server, &Config::Server::socket>(
        "server", "socket",
        "Unix socket of the API. Anyone may connect; permissions depend on the user."),
    path<&Config::server, &Config::Server::lease_socket>(
        "server", "lease_socket",
        "Unix socket that allows nothing beyond leasing, not even for root; mount this one into "
        "containers. \"auto\": lease.sock next to gpuyard.sock; empty: none.",
        Path::file_or_auto),
    member<&Config::server, &Config::Server::allowed_hosts>(
        "server", "allowed_hosts",
        "Host names that clients may use for the TCP listeners, besides localhost and the address "
        "itself."),
    member<&Config::server, &Config::Server::insecure_read_only>(
        "server", "insecure_read_only",
        "Addresses in listen that may be reachable from the network, where anyone can read. For "
        "networks, prefer tls.listen."),
    member<&Config::tls, &Config::Tls::listen>(
        "tls", "listen",
        "TCP addresses with TLS, for clients with tokens, e.g. \"0.0.0.0:9411\". [] for none."),
    path<&Config::tls, &Config::Tls::certificate>(
        "tls", "certificate",
        "PEM file with the certificate and its intermediate certificates. Empty: the one created "
        "by `gpuyard tls init`. Reloaded when it changes."),
    path<&Config::tls, &Config::Tls::key>(
        "tls", "key",
        "PEM file with the key of the certificate. Empty: the one created by `gpuyard tls init`."),
    word<&Config::tls, &Config::Tls::anonymous, kAnonymous>(
        "tls", "anonymous",
        "What clients without a token may see over TLS: \"none\", \"metrics\" or \"read\"."),
    path<&Config::tls, &Config::Tls::client_ca>("tls", "client_ca",
                                                "PEM file with the authority that signs client "
                                                "certificates. Empty: no client certificates."),
    member<&Config::tls, &Config::Tls::clients>(
        "tls", "clients",
        "Permissions by name in a client certificate: \"DNS:prometheus.lab = metrics\" or, acting "
        "as a user, \"URI:spiffe://lab/ci = lease uid 1000\".",
        &set_tls_clients),
    live(member<&Config::tls, &Config::Tls::revoked>(
        "tls", "revoked", "SHA-256 fingerprints of client certificates to refuse.")),
    path<&Config::state, &Config::State::directory>("state", "directory",
                                                    "Directory for persistent state."),
    path<&Config::driver, &Config::Driver::nvml>(
        "driver", "nvml", "Path of libnvidia-ml.so.1. Empty: found by the loader.",
        Path::file_or_name),
    bounded<1, Config::Telemetry::kMaxInterval, &Config::telemetry, &Config::Telemetry::interval_s>(
        "telemetry", "interval_s", "Seconds between two readings of a GPU, 1 to 10."),
    path<&Config::telemetry, &Config::Telemetry::pci_root>(
        "telemetry", "pci_root",
        "Directory of the kernel's PCI devices, with the file power/runtime_status of each GPU. "
        "Empty: suspended GPUs are read too. The default is not used with simulated GPUs."),
    path<&Config::processes, &Config::Processes::proc_root>(
        "processes", "proc_root",
        "Directory for looking up the processes that the driver lists. In a container: the mount "
        "point of the host's /proc."),
    path<&Config::processes, &Config::Processes::marks_socket>(
        "processes", "marks_socket",
        "Socket of the gpuyard-marks service, which reads the environments of other users' "
        "processes "
        "for a daemon that may not."),
    member<&Config::health, &Config::Health::common, &Temperatures::degraded>(
        "health", "temperature_degraded",
        "Temperature in degrees Celsius above which a GPU is degraded."),
    member<&Config::health, &Config::Health::common, &Temperatures::unhealthy>(
        "health", "temperature_unhealthy",
        "Temperature in degrees Celsius above which a GPU is unhealthy."),
    Key{"health", "temperatures_of", false,
        "Temperatures for single GPUs: \"GPU = DEGRADED/UNHEALTHY\", where GPU is an index, a UUID "
        "or a PCI address.",
        Type::list, &get_temperatures_of, &set_temperatures_of},
    member<&Config::energy, &Config::Energy::price_per_kwh>(
        "energy", "price_per_kwh", "Price of a kilowatt-hour, for cost estimates. 0: no estimates.",
        &set_tariff<&Config::Energy::price_per_kwh>),
    member<&Config::energy, &Config::Energy::currency>(
        "energy", "currency", "Currency of the price, e.g. EUR or $.", &set_currency),
    member<&Config::energy, &Config::Energy::g_co2_per_kwh>(
        "energy", "g_co2_per_kwh",
        "Grams of CO2 per kilowatt-hour, for estimates. 0: no estimates.",
        &set_tariff<&Config::Energy::g_co2_per_kwh>),
    bottleneck<&Config::Bottleneck::least_share_percent>(
        "least_share_percent",
        "Share of the last minute, in percent, from which heat, the power brake or the power limit "
        "counts as a bottleneck."),
    bottleneck<&Config::Bottleneck::starved_below_percent>(
        "starved_below_percent",
        "Utilisation below which a GPU in use counts as starved, if its process uses a whole core "
        "or PCIe is saturated."),
    bottleneck<&Config::Bottleneck::waiting_power_percent>(
        "waiting_power_percent",
        "Share of the power limit, in percent, up to which a constantly busy GPU counts as "
        "waiting."),
    bottleneck<&Config::Bottleneck::idle_after_s, Config::Bottleneck::kMaxIdle>(
        "idle_after_s", "Seconds without use after which a leased GPU counts as idle."),
    bottleneck<&Config::Bottleneck::memory_full_percent>(
        "memory_full_percent", "Memory use, in percent, from which the memory counts as full."),
    path<&Config::events, &Config::Events::kernel_log>(
        "events", "kernel_log",
        "Kernel log to read Xids from, or a FIFO with the same content. Empty: none. /dev/kmsg is "
        "not read with simulated GPUs."),
    path<&Config::zeus, &Config::Zeus::socket>(
        "zeus", "socket",
        "Unix socket with zeusd's protocol, for ZEUSD_SOCK_PATH of programs that use Zeus, e.g. "
        "/run/gpuyard/zeusd.sock. Empty: none. What they may set depends on [control]."),
    member<&Config::zeus, &Config::Zeus::listen>(
        "zeus", "listen",
        "TCP addresses with zeusd's protocol, for ZEUSD_HOST_PORT; read-only access. [] for none."),
    path<&Config::zeus, &Config::Zeus::rapl_root>(
        "zeus", "rapl_root",
        "Directory with the kernel's CPU energy counters. In a container: the mount point of the "
        "host's /sys/class/powercap."),
    member<&Config::zeus, &Config::Zeus::cpu_over_tcp>(
        "zeus", "cpu_over_tcp",
        "Whether TCP clients can read CPU energy, in whole joules and once per second. Finer "
        "values reveal what the CPUs compute and are available only over Unix sockets."),
    share<&UserQuotas::connections>(
        "connections", "Maximum number of open connections per user, or per address on TCP."),
    share<&UserQuotas::streams>(
        "streams",
        "Maximum number of open streams per user, or per address on TCP; they "
        "count as connections, too."),
    share<&UserQuotas::waiting_claims>("waiting_claims",
                                       "Maximum number of waiting claims per user."),
    share<&UserQuotas::claims_a_minute>(
        "claims_a_minute",
        "Maximum number of claims per user per minute; also applies to renewals."),
    share<&UserQuotas::changes_a_minute>("changes_a_minute",
                                         "Maximum number of setting changes per user per minute."),
    member<&Config::metrics, &Config::Metrics::prefix>("metrics", "prefix",
                                                       "Prefix of all metric names."),
    word<&Config::metrics, &Config::Metrics::dialect, kDialects>(
        "metrics", "dialect",
        "Naming of metrics: \"gpuyard\", \"dcgm-4.8\" for dashboards made for dcgm-exporter, or "
        "\"both\"."),
    word<&Config::metrics, &Config::Metrics::profile, kProfiles>(
        "metrics", "profile",
        "Number of metrics: \"full\", or \"minimal\" for thousands of machines, with at most 20 "
        "series per GPU."),
    member<&Config::control, &Config::Control::enabled>(
        "control", "enabled",
        "Whether GPUs may be changed: power limits, clocks, modes and resets. false: monitoring "
        "only."),
    member<&Config::control, &Config::Control::group>(
        "control", "group",
        "Members of this group may change GPUs over the Unix socket. Empty: only "
        "administrators."),
    word<&Config::control, &Config::Control::on_stop, kOnStop>(
        "control", "on_stop",
        "What to do with GPU settings when the daemon stops: \"keep\" them, or \"restore\" the "
        "previous values."),
    member<&Config::control, &Config::Control::reset_command>(
        "control", "reset_command",
        "Command that resets a GPU, as a list of words; {index}, {uuid} and {pci} are replaced. "
        "[]: GPUs cannot be reset.",
        &set_reset_command),
    bounded<1, Config::Control::kMaxReset, &Config::control, &Config::Control::reset_timeout_s>(
        "control", "reset_timeout_s", "Seconds after which reset_command is killed, 1 to 3600."),
    bounded<0, Config::Control::kMaxWatts, &Config::control, &Config::Control::lowest_w>(
        "control", "lowest_w",
        "Lowest power limit that may be set, in watts, if the driver allows it. 0: the driver's "
        "own."),
    bounded<0, Config::Control::kMaxWatts, &Config::control, &Config::Control::highest_w>(
        "control", "highest_w",
        "Highest power limit that may be set, in watts, if the driver allows it. 0: the driver's "
        "own."),
    bounded<1, kMaxShare, &Config::control, &Config::Control::gpu_changes_a_minute>(
        "control", "gpu_changes_a_minute",
        "Maximum number of changes per GPU and minute. Restored settings wait instead."),
    word<&Config::lease, &Config::Lease::mode, kModes>(
        "lease", "mode",
        "Who allocates the GPUs: \"grant\": gpuyard; \"observe\": Slurm or Kubernetes; \"auto\": "
        "either of them once it has reported."),
    word<&Config::lease, &Config::Lease::fair, kFairnessModes>(
        "lease", "fair",
        "Queue policy: \"backfill\" starts short claims early if that delays no other claim; "
        "\"strict\" "
        "never does."),
    live(word<&Config::lease, &Config::Lease::through, kThrough>(
        "lease", "through",
        "Where gpuyard run gets its GPUs: \"daemon\": from the daemon's queue; \"slurm\": from "
        "Slurm, with srun. gpuyard run, queue, leases and free read it themselves, also where no "
        "daemon runs.")),
    bounded<0, Config::Lease::kMaxGpus, &Config::lease, &Config::Lease::most_gpus_per_user>(
        "lease", "most_gpus_per_user", "Maximum number of GPUs per user. 0: no limit."),
    member<&Config::lease, &Config::Lease::end_overdue>(
        "lease", "end_overdue",
        "Whether to end leases that exceed the maximum time their holder announced."),
    member<&Config::lease, &Config::Lease::may_control>(
        "lease", "may_control",
        "Whether lease holders may set the power limit and clocks of their GPUs. Also requires "
        "control.enabled."),
    live(path<&Config::alerts, &Config::Alerts::file>(
        "alerts", "file",
        "File with your own alert rules and the notification sinks. Empty: alerts.toml next to the "
        "configuration file, if it exists.")),
    live(word<&Config::log, &Config::Log::level, kLevels>(
        "log", "level", "Log level: debug, info, warning or error.")),
};

}  // namespace

Result<void> set_level(Config& config, const std::string& name) {
  return set_word<&Config::log, &Config::Log::level, kLevels>(config, name);
}

Result<void> set_dialect(Config& config, const std::string& name) {
  return set_word<&Config::metrics, &Config::Metrics::dialect, kDialects>(config, name);
}

std::span<const Key> keys() {
  return kKeys;
}

std::vector<std::string> changed_restart_keys(const Config& one, const Config& other) {
  std::vector<std::string> names;
  for (const Key& key : kKeys) {
    if (key.live || key.get(one) == key.get(other)) continue;
    names.push_back(fmt::format("{}.{}", key.section, key.name));
  }
  return names;
}

}  // namespace gpuyard::config
