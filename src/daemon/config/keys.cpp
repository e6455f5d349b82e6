#include "daemon/config/keys.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <boost/mp11/algorithm.hpp>

#include "base/text.h"

namespace gpuyard::config {
namespace {

using Strings = std::vector<std::string>;

// Gets and sets a member without further checks.
template <auto Section, auto Member>
Value get_member(const Config& config) {
  return config.*Section.*Member;
}
template <auto Section, auto Member>
Result<void> set_member(Config& config, const Value& value) {
  auto& member = config.*Section.*Member;
  member = std::get<std::remove_reference_t<decltype(member)>>(value);
  return {};
}

// Makes the key of a member of its section's struct. `set` is for values that need more than the
// right type.
template <auto Section, auto Member>
constexpr Key member(std::string_view section, std::string_view name, std::string_view help,
                     Result<void> (*set)(Config&, const Value&) = &set_member<Section, Member>) {
  using Kept = std::remove_cvref_t<decltype(std::declval<Config&>().*Section.*Member)>;
  constexpr auto kType = static_cast<Type>(boost::mp11::mp_find<Value, Kept>::value);
  return {section, name, false, help, kType, &get_member<Section, Member>, set};
}

template <auto Section, auto Member>
constexpr Key path(std::string_view section, std::string_view name, std::string_view help,
                   Path which = Path::file) {
  Key key = member<Section, Member>(section, name, help);
  key.path = which;
  return key;
}

// The words of each enumeration, in its order.
constexpr std::array<std::string_view, 2> kOnStop = {"keep", "restore"};
constexpr std::array<std::string_view, 3> kMode = {"auto", "grant", "observe"};
constexpr std::array<std::string_view, 2> kFair = {"backfill", "strict"};
constexpr std::array<std::string_view, 3> kDialects = {"gpuyard", "dcgm-4.8", "both"};
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
    const std::string_view between = Words.size() == 2 ? "\" or \"" : "\", \"";
    return Error{Errc::invalid,
                 fmt::format("can be \"{}\", not \"{}\"", fmt::join(Words, between), name)};
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

Result<void> set_level_value(Config& config, const Value& value) {
  return set_level(config, std::get<std::string>(value));
}

using Temperatures = Config::Temperatures;

template <auto Member>
Value get_temperature(const Config& config) {
  return config.health.common.*Member;
}
template <auto Member>
Result<void> set_temperature(Config& config, const Value& value) {
  config.health.common.*Member = std::get<std::int64_t>(value);
  return {};
}

// Sets a whole number within bounds. `least` as words: "0 (no limit)".
template <auto Section, auto Member, std::int64_t Least, std::int64_t Most>
Result<void> set_bounded(Config& config, const Value& value) {
  const auto number = std::get<std::int64_t>(value);
  if (number < Least || number > Most) {
    return Error{Errc::invalid,
                 fmt::format("can be {} to {}, not {}",
                             Least == 0 ? "0 (no limit)" : std::to_string(Least), Most, number)};
  }
  config.*Section.*Member = number;
  return {};
}

constexpr std::int64_t kMostShare = 1'000'000;
template <auto Member>
constexpr Key share(std::string_view name, std::string_view help) {
  return member<&Config::shares, Member>("shares", name, help,
                                         &set_bounded<&Config::shares, Member, 1, kMostShare>);
}

// Reads "3 = 80/90".
std::optional<std::pair<std::string, Temperatures>> temperatures_of(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::size_t slash = text.find('/');
  if (equals == text.npos || slash == text.npos || slash < equals) return std::nullopt;
  const std::string_view gpu = trimmed(text.substr(0, equals));
  const auto degraded =
      number_in<std::int64_t>(trimmed(text.substr(equals + 1, slash - equals - 1)));
  const auto unhealthy = number_in<std::int64_t>(trimmed(text.substr(slash + 1)));
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
                   fmt::format("\"{}\" is not of the form \"GPU = DEGRADED/UNHEALTHY\"", text)};
    }
    if (!all.insert(*std::move(one)).second) {
      return Error{Errc::invalid, fmt::format("\"{}\" names a GPU for the second time", text)};
    }
  }
  config.health.of_gpu = std::move(all);
  return {};
}

// Keys whose values need more than the right type.

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
        fmt::format("\"{}\" stands for nothing; {{index}}, {{uuid}} and {{pci}} do", name)};
  }
  return {};
}

Result<void> set_reset_command(Config& config, const Value& value) {
  const auto& words = std::get<std::vector<std::string>>(value);
  if (!words.empty() && words.front().empty()) {
    return Error{Errc::invalid, "its first word, the program, is empty"};
  }
  for (const std::string& word : words) {
    if (auto known = check_word(word); !known) return known;
  }
  config.control.reset_command = words;
  return {};
}

template <auto Member>
Result<void> set_tariff(Config& config, const Value& value) {
  constexpr double kMost = 1e6;
  const auto number = std::get<double>(value);
  if (!(number >= 0 && number <= kMost)) {
    return Error{Errc::invalid, fmt::format("can be 0 (not known) to {}, not {}", kMost, number)};
  }
  config.energy.*Member = number;
  return {};
}

// Shown beside numbers on every screen: a word or a sign.
Result<void> set_currency(Config& config, const Value& value) {
  const auto& text = std::get<std::string>(value);
  constexpr std::size_t kLongest = 16;
  if (text.empty() || text.size() > kLongest || printable(text) != text) {
    return Error{Errc::invalid, fmt::format("is a word or a sign of 1 to {} bytes", kLongest)};
  }
  config.energy.currency = text;
  return {};
}

template <auto Member, std::int64_t Most = 100>
constexpr Key bottleneck(std::string_view name, std::string_view help) {
  return member<&Config::bottleneck, Member>("bottleneck", name, help,
                                             &set_bounded<&Config::bottleneck, Member, 1, Most>);
}

Result<void> set_tls_clients(Config& config, const Value& value) {
  for (const std::string& text : std::get<Strings>(value)) {
    if (auto client = tls_client_of(text); !client) return std::move(client).error();
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
        "server", "listen", "TCP addresses to listen on. TCP is read-only. [] for none."),
    path<&Config::server, &Config::Server::socket>(
        "server", "socket", "Unix socket of the API. Anybody may connect; peers decide."),
    path<&Config::server, &Config::Server::lease_socket>(
        "server", "lease_socket",
        "Unix socket on which nobody may more than lease, not even root: the one to mount into "
        "containers. \"auto\": lease.sock beside gpuyard.sock; empty: none.",
        Path::file_or_auto),
    member<&Config::server, &Config::Server::allowed_hosts>(
        "server", "allowed_hosts",
        "Names by which clients may address the TCP listeners, beside localhost and the address "
        "itself."),
    member<&Config::server, &Config::Server::insecure_read_only>(
        "server", "insecure_read_only",
        "Those of the addresses in listen that are not of this machine alone: anybody on the "
        "network "
        "reads what is read there. tls.listen is for networks."),
    member<&Config::tls, &Config::Tls::listen>(
        "tls", "listen",
        "TCP addresses that speak TLS, for clients with tokens: \"0.0.0.0:9411\". [] for none."),
    path<&Config::tls, &Config::Tls::certificate>(
        "tls", "certificate",
        "PEM file of the certificate, and of those between it and its root. Empty: the one that "
        "`gpuyard tls init` makes. Read again when it changes."),
    path<&Config::tls, &Config::Tls::key>("tls", "key", "PEM file of its key. Empty: likewise."),
    word<&Config::tls, &Config::Tls::anonymous, kAnonymous>(
        "tls", "anonymous",
        "What whoever shows no token may see over TLS: \"none\", \"metrics\" or \"read\"."),
    path<&Config::tls, &Config::Tls::client_ca>(
        "tls", "client_ca", "PEM file of who signs client certificates; empty: nobody does."),
    member<&Config::tls, &Config::Tls::clients>("tls", "clients",
                                                "What a name in a client certificate may do: "
                                                "\"DNS:prometheus.lab = metrics\", or as a user: "
                                                "\"URI:spiffe://lab/ci = lease uid 1000\".",
                                                &set_tls_clients),
    live(member<&Config::tls, &Config::Tls::revoked>(
        "tls", "revoked", "SHA-256 fingerprints of client certificates that are refused.")),
    path<&Config::state, &Config::State::directory>("state", "directory",
                                                    "Where the daemon keeps what must survive it."),
    path<&Config::driver, &Config::Driver::nvml>(
        "driver", "nvml", "Path of libnvidia-ml.so.1; empty: where the loader finds it.",
        Path::file_or_name),
    path<&Config::processes, &Config::Processes::proc_root>(
        "processes", "proc_root",
        "Where the processes that the driver lists are looked up: in a container, where the host's "
        "/proc is mounted."),
    Key{"health", "temperature_degraded", false, "A GPU is degraded above so many degrees Celsius.",
        Type::integer, &get_temperature<&Temperatures::degraded>,
        &set_temperature<&Temperatures::degraded>},
    Key{"health", "temperature_unhealthy", false,
        "A GPU is unhealthy above so many degrees Celsius.", Type::integer,
        &get_temperature<&Temperatures::unhealthy>, &set_temperature<&Temperatures::unhealthy>},
    Key{"health", "temperatures_of", false,
        "Other temperatures of one GPU: \"GPU = DEGRADED/UNHEALTHY\", where GPU is an index, a "
        "UUID or a PCI address.",
        Type::list, &get_temperatures_of, &set_temperatures_of},
    member<&Config::energy, &Config::Energy::price_per_kwh>(
        "energy", "price_per_kwh",
        "What a kilowatt-hour costs, for estimates of what use costs; 0: no such estimates.",
        &set_tariff<&Config::Energy::price_per_kwh>),
    member<&Config::energy, &Config::Energy::currency>(
        "energy", "currency", "The currency of that price: EUR, $.", &set_currency),
    member<&Config::energy, &Config::Energy::g_co2_per_kwh>(
        "energy", "g_co2_per_kwh",
        "Grams of CO2 for each kilowatt-hour, for estimates; 0: no such estimates.",
        &set_tariff<&Config::Energy::g_co2_per_kwh>),
    bottleneck<&Config::Bottleneck::least_share_percent>(
        "least_share_percent",
        "Heat, the power brake or the power limit hold a GPU back from this share of the last "
        "minute on."),
    bottleneck<&Config::Bottleneck::starved_below_percent>(
        "starved_below_percent",
        "A GPU in use is starved only below this utilisation, if its process needs a whole core or "
        "PCIe is full."),
    bottleneck<&Config::Bottleneck::waiting_power_percent>(
        "waiting_power_percent",
        "A GPU that is always busy with at most this share of its power limit waits."),
    bottleneck<&Config::Bottleneck::idle_after_s, Config::Bottleneck::kLongestIdle>(
        "idle_after_s", "A leased GPU that nobody uses for so many seconds is idle."),
    bottleneck<&Config::Bottleneck::memory_full_percent>("memory_full_percent",
                                                         "Its memory is full from here on."),
    path<&Config::events, &Config::Events::kernel_log>(
        "events", "kernel_log",
        "Where the kernel tells of Xids, or a FIFO that tells the same; empty: nowhere. With "
        "simulated GPUs /dev/kmsg is not read."),
    path<&Config::zeus, &Config::Zeus::socket>(
        "zeus", "socket",
        "Unix socket that speaks zeusd's protocol, for ZEUSD_SOCK_PATH of programs that use Zeus: "
        "/run/gpuyard/zeusd.sock, say; empty: none. What they may set is control's to say."),
    member<&Config::zeus, &Config::Zeus::listen>(
        "zeus", "listen",
        "TCP addresses of the same, for ZEUSD_HOST_PORT. TCP is read-only. [] for none."),
    path<&Config::zeus, &Config::Zeus::rapl_root>(
        "zeus", "rapl_root",
        "Where the kernel counts the energy of CPUs: in a container, where the host's "
        "/sys/class/powercap is mounted."),
    member<&Config::zeus, &Config::Zeus::cpu_over_tcp>(
        "zeus", "cpu_over_tcp",
        "Whether anybody who may connect over TCP reads the energy of CPUs, in whole joules and "
        "once a second. Finer, it tells what they compute: that is for Unix sockets."),
    share<&Shares::connections>(
        "connections", "How many connections one user may have open, or one address on TCP."),
    share<&Shares::streams>("streams", "How many of them may be streams."),
    share<&Shares::waiting_claims>("waiting_claims",
                                   "How many claims of one user may wait for GPUs."),
    share<&Shares::claims_a_minute>(
        "claims_a_minute", "How many claims one user may make in a minute, and as many renewals."),
    share<&Shares::changes_a_minute>(
        "changes_a_minute", "How many changes of GPUs' settings one user may ask for in a minute."),
    member<&Config::metrics, &Config::Metrics::prefix>("metrics", "prefix",
                                                       "First word of every metric name."),
    word<&Config::metrics, &Config::Metrics::dialect, kDialects>(
        "metrics", "dialect",
        "Under whose names readings are told: \"gpuyard\", \"dcgm-4.8\" for dashboards made for "
        "dcgm-exporter, or \"both\"."),
    member<&Config::control, &Config::Control::enabled>(
        "control", "enabled",
        "Whether GPUs may be changed: power limits, clocks, modes, resets. false: they are only "
        "watched."),
    member<&Config::control, &Config::Control::group>(
        "control", "group",
        "Members of this group may change GPUs, over the Unix socket. Empty: only root and the "
        "daemon's own user may."),
    word<&Config::control, &Config::Control::on_stop, kOnStop>(
        "control", "on_stop",
        "When the daemon ends: \"keep\" what is set of the GPUs, or \"restore\" what was before."),
    member<&Config::control, &Config::Control::reset_command>(
        "control", "reset_command",
        "Command that resets a GPU, word by word; {index}, {uuid} and {pci} stand for the GPU's "
        "names. []: GPUs cannot be reset.",
        &set_reset_command),
    member<&Config::control, &Config::Control::reset_timeout_s>(
        "control", "reset_timeout_s", "That command is killed after so many seconds (1 to 3600).",
        &set_bounded<&Config::control, &Config::Control::reset_timeout_s, 1,
                     Config::Control::kLongestReset>),
    word<&Config::lease, &Config::Lease::mode, kMode>(
        "lease", "mode",
        "Who hands out GPUs: \"grant\": gpuyard, \"observe\": Slurm, \"auto\": see its hooks."),
    word<&Config::lease, &Config::Lease::fair, kFair>(
        "lease", "fair",
        "Who gets a GPU next: \"backfill\" lets short claims go first that delay nobody, "
        "\"strict\" nobody."),
    member<&Config::lease, &Config::Lease::most_gpus_per_user>(
        "lease", "most_gpus_per_user", "So many GPUs one user may have at a time; 0: no limit.",
        &set_bounded<&Config::lease, &Config::Lease::most_gpus_per_user, 0,
                     Config::Lease::kMostGpus>),
    member<&Config::lease, &Config::Lease::end_overdue>(
        "lease", "end_overdue",
        "Whether a lease that is held longer than its holder said is ended."),
    member<&Config::lease, &Config::Lease::may_control>(
        "lease", "may_control",
        "Whether holders may set the power limit and the clocks of their own GPUs, as long as they "
        "hold them; control.enabled has to be true, too."),
    Key{"alerts", "file", true,
        "Rules of your own, and the sinks that alerts go to. Empty: alerts.toml beside the "
        "configuration, if it is there.",
        Type::text, &get_member<&Config::alerts, &Config::Alerts::file>,
        &set_member<&Config::alerts, &Config::Alerts::file>, Path::file},
    Key{"log", "level", true, "debug, info, warning or error.", Type::text,
        &get_word<&Config::log, &Config::Log::level, kLevels>, &set_level_value},
};

}  // namespace

Result<void> set_level(Config& config, const std::string& name) {
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    if (name != kLevels[i]) continue;
    config.log.level = static_cast<log::Level>(i);
    return {};
  }
  return Error{Errc::invalid, "\"" + name + "\" is no level; use debug, info, warning or error"};
}

Result<void> set_dialect(Config& config, const std::string& name) {
  return set_word<&Config::metrics, &Config::Metrics::dialect, kDialects>(config, name);
}

std::span<const Key> keys() {
  return kKeys;
}

std::vector<std::string> restart_keys_that_differ(const Config& one, const Config& other) {
  std::vector<std::string> names;
  for (const Key& key : kKeys) {
    if (key.live || key.get(one) == key.get(other)) continue;
    names.push_back(fmt::format("{}.{}", key.section, key.name));
  }
  return names;
}

}  // namespace gpuyard::config
