#include "daemon/config/keys.h"

#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "daemon/config/control_keys.h"
#include "daemon/config/lease_keys.h"
#include "daemon/config/metrics_keys.h"

namespace gpuyard::config {
namespace {

using Strings = std::vector<std::string>;

// How a member is got and set without further checks.
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

constexpr std::array<std::string_view, 4> kLevels = {"debug", "info", "warning", "error"};

Value get_level(const Config& config) {
  return std::string(kLevels[static_cast<std::size_t>(config.log.level)]);
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

template <auto Member>
Value get_share(const Config& config) {
  return config.shares.*Member;
}
template <auto Member>
Result<void> set_share(Config& config, const Value& value) {
  constexpr std::int64_t kMost = 1'000'000;
  const auto share = std::get<std::int64_t>(value);
  if (share < 1 || share > kMost) {
    return Error{Errc::invalid, fmt::format("can be from 1 to {}, not {}", kMost, share)};
  }
  config.shares.*Member = share;
  return {};
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::optional<std::int64_t> integer_of(std::string_view text) {
  text = trimmed(text);
  std::int64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
  return whole ? std::optional(number) : std::nullopt;
}

// "3 = 80/90"
std::optional<std::pair<std::string, Temperatures>> temperatures_of(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::size_t slash = text.find('/');
  if (equals == text.npos || slash == text.npos || slash < equals) return std::nullopt;
  const std::string_view gpu = trimmed(text.substr(0, equals));
  const auto degraded = integer_of(text.substr(equals + 1, slash - equals - 1));
  const auto unhealthy = integer_of(text.substr(slash + 1));
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

constexpr std::array kKeys = {
    Key{"server", "listen", false, "TCP addresses to listen on. TCP is read-only. [] for none.",
        Type::list, &get_member<&Config::server, &Config::Server::listen>,
        &set_member<&Config::server, &Config::Server::listen>},
    Key{"server", "socket", false, "Unix socket of the API. Anybody may connect; peers decide.",
        Type::text, &get_member<&Config::server, &Config::Server::socket>,
        &set_member<&Config::server, &Config::Server::socket>},
    Key{"server", "lease_socket", false,
        "Unix socket on which nobody may more than lease, not even root: the one to mount into "
        "containers. \"auto\": lease.sock beside gpuyard.sock; empty: none.",
        Type::text, &get_member<&Config::server, &Config::Server::lease_socket>,
        &set_member<&Config::server, &Config::Server::lease_socket>},
    Key{"server", "allowed_hosts", false,
        "Names by which clients may address the TCP listeners, beside localhost and the address "
        "itself.",
        Type::list, &get_member<&Config::server, &Config::Server::allowed_hosts>,
        &set_member<&Config::server, &Config::Server::allowed_hosts>},
    Key{"state", "directory", false, "Where the daemon keeps what must survive it.", Type::text,
        &get_member<&Config::state, &Config::State::directory>,
        &set_member<&Config::state, &Config::State::directory>},
    Key{"driver", "nvml", false, "Path of libnvidia-ml.so.1; empty: where the loader finds it.",
        Type::text, &get_member<&Config::driver, &Config::Driver::nvml>,
        &set_member<&Config::driver, &Config::Driver::nvml>},
    Key{"processes", "proc_root", false,
        "Where the processes that the driver lists are looked up: in a container, where the host's "
        "/proc is mounted.",
        Type::text, &get_member<&Config::processes, &Config::Processes::proc_root>,
        &set_member<&Config::processes, &Config::Processes::proc_root>},
    Key{"health", "temperature_degraded", false, "A GPU is degraded above so many degrees Celsius.",
        Type::integer, &get_temperature<&Temperatures::degraded>,
        &set_temperature<&Temperatures::degraded>},
    Key{"health", "temperature_unhealthy", false,
        "A GPU is unhealthy above so many degrees Celsius.", Type::integer,
        &get_temperature<&Temperatures::unhealthy>, &set_temperature<&Temperatures::unhealthy>},
    Key{"health", "temperatures_of", false,
        "Other temperatures of one GPU: \"GPU = DEGRADED/UNHEALTHY\", where GPU is an index, a "
        "UUID "
        "or a PCI address.",
        Type::list, &get_temperatures_of, &set_temperatures_of},
    Key{"events", "kernel_log", false,
        "Where the kernel tells of Xids, or a FIFO that tells the same; empty: nowhere. With "
        "simulated GPUs /dev/kmsg is not read.",
        Type::text, &get_member<&Config::events, &Config::Events::kernel_log>,
        &set_member<&Config::events, &Config::Events::kernel_log>},
    Key{"zeus", "socket", false,
        "Unix socket that speaks zeusd's protocol, for ZEUSD_SOCK_PATH of programs that use Zeus: "
        "/run/gpuyard/zeusd.sock, say; empty: none. What they may set is control's to say.",
        Type::text, &get_member<&Config::zeus, &Config::Zeus::socket>,
        &set_member<&Config::zeus, &Config::Zeus::socket>},
    Key{"zeus", "listen", false,
        "TCP addresses of the same, for ZEUSD_HOST_PORT. TCP is read-only. [] for none.",
        Type::list, &get_member<&Config::zeus, &Config::Zeus::listen>,
        &set_member<&Config::zeus, &Config::Zeus::listen>},
    Key{"zeus", "rapl_root", false,
        "Where the kernel counts the energy of CPUs: in a container, where the host's "
        "/sys/class/powercap is mounted.",
        Type::text, &get_member<&Config::zeus, &Config::Zeus::rapl_root>,
        &set_member<&Config::zeus, &Config::Zeus::rapl_root>},
    Key{"zeus", "cpu_over_tcp", false,
        "Whether anybody who may connect over TCP reads the energy of CPUs, in whole joules and "
        "once a second. Finer, it tells what they compute: that is for Unix sockets.",
        Type::boolean, &get_member<&Config::zeus, &Config::Zeus::cpu_over_tcp>,
        &set_member<&Config::zeus, &Config::Zeus::cpu_over_tcp>},
    Key{"shares", "connections", false,
        "How many connections one user may have open, or one address on TCP.", Type::integer,
        &get_share<&Shares::connections>, &set_share<&Shares::connections>},
    Key{"shares", "streams", false, "How many of them may be streams.", Type::integer,
        &get_share<&Shares::streams>, &set_share<&Shares::streams>},
    Key{"shares", "waiting_claims", false, "How many claims of one user may wait for GPUs.",
        Type::integer, &get_share<&Shares::waiting_claims>, &set_share<&Shares::waiting_claims>},
    Key{"shares", "claims_a_minute", false,
        "How many claims one user may make in a minute, and as many renewals.", Type::integer,
        &get_share<&Shares::claims_a_minute>, &set_share<&Shares::claims_a_minute>},
    Key{"shares", "changes_a_minute", false,
        "How many changes of GPUs' settings one user may ask for in a minute.", Type::integer,
        &get_share<&Shares::changes_a_minute>, &set_share<&Shares::changes_a_minute>},
    Key{"metrics", "prefix", false, "First word of every metric name.", Type::text,
        &get_member<&Config::metrics, &Config::Metrics::prefix>,
        &set_member<&Config::metrics, &Config::Metrics::prefix>},
    Key{"metrics", "dialect", false,
        "Under whose names readings are told: \"gpuyard\", \"dcgm-4.8\" for dashboards made for "
        "dcgm-exporter, or \"both\".",
        Type::text, &get_dialect, &set_dialect_value},
    Key{"control", "enabled", false,
        "Whether GPUs may be changed: power limits, clocks, modes, resets. false: they are only "
        "watched.",
        Type::boolean, &get_member<&Config::control, &Config::Control::enabled>,
        &set_member<&Config::control, &Config::Control::enabled>},
    Key{"control", "group", false,
        "Members of this group may change GPUs, over the Unix socket. Empty: only root and the "
        "daemon's own user may.",
        Type::text, &get_member<&Config::control, &Config::Control::group>,
        &set_member<&Config::control, &Config::Control::group>},
    Key{"control", "on_stop", false,
        "When the daemon ends: \"keep\" what is set of the GPUs, or \"restore\" what was before.",
        Type::text, &get_on_stop, &set_on_stop},
    Key{"control", "reset_command", false,
        "Command that resets a GPU, word by word; {index}, {uuid} and {pci} stand for the GPU's "
        "names. []: GPUs cannot be reset.",
        Type::list, &get_member<&Config::control, &Config::Control::reset_command>,
        &set_reset_command},
    Key{"control", "reset_timeout_s", false,
        "That command is killed after so many seconds (1 to 3600).", Type::integer,
        &get_member<&Config::control, &Config::Control::reset_timeout_s>, &set_reset_timeout},
    Key{"lease", "fair", false,
        "Who gets a GPU next: \"backfill\" lets short claims go first that delay nobody, "
        "\"strict\" nobody.",
        Type::text, &get_fair, &set_fair},
    Key{"lease", "most_gpus_per_user", false,
        "So many GPUs one user may have at a time; 0: no limit.", Type::integer,
        &get_member<&Config::lease, &Config::Lease::most_gpus_per_user>, &set_most_gpus_per_user},
    Key{"lease", "end_overdue", false,
        "Whether a lease that is held longer than its holder said is ended.", Type::boolean,
        &get_member<&Config::lease, &Config::Lease::end_overdue>,
        &set_member<&Config::lease, &Config::Lease::end_overdue>},
    Key{"lease", "may_control", false,
        "Whether holders may set the power limit and the clocks of their own GPUs, as long as they "
        "hold them; control.enabled has to be true, too.",
        Type::boolean, &get_member<&Config::lease, &Config::Lease::may_control>,
        &set_member<&Config::lease, &Config::Lease::may_control>},
    Key{"alerts", "file", true,
        "Rules of your own, and the sinks that alerts go to. Empty: alerts.toml beside the "
        "configuration, if it is there.",
        Type::text, &get_member<&Config::alerts, &Config::Alerts::file>,
        &set_member<&Config::alerts, &Config::Alerts::file>},
    Key{"log", "level", true, "debug, info, warning or error.", Type::text, &get_level,
        &set_level_value},
};

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string to_toml(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return in_quotes(*text);
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* yes = std::get_if<bool>(&value)) return *yes ? "true" : "false";
  std::string out = "[";
  for (const std::string& element : std::get<Strings>(value)) {
    if (out.size() > 1) out += ", ";
    out += in_quotes(element);
  }
  return out + "]";
}

}  // namespace

Result<void> set_level(Config& config, const std::string& name) {
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    if (name != kLevels[i]) continue;
    config.log.level = static_cast<log::Level>(i);
    return {};
  }
  return Error{Errc::invalid, "\"" + name + "\" is no level; use debug, info, warning or error"};
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

std::string render(const Config& config, Style style) {
  std::string out = "# gpuyard configuration\n";
  std::string_view section;
  for (const Key& key : kKeys) {
    if (key.section != section) out += fmt::format("\n[{}]\n", section = key.section);
    out += fmt::format("# {} ({})\n", key.help, key.live ? "live" : "restart");
    out += fmt::format("{}{} = {}\n", style == Style::commented_template ? "# " : "", key.name,
                       to_toml(key.get(config)));
  }
  return out;
}

}  // namespace gpuyard::config
