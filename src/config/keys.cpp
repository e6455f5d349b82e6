#include "config/keys.h"

#include <array>

#include <fmt/format.h>

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

constexpr std::array kKeys = {
    Key{"server", "listen", false, "TCP addresses to listen on. TCP is read-only. [] for none.",
        true, &get_member<&Config::server, &Config::Server::listen>,
        &set_member<&Config::server, &Config::Server::listen>},
    Key{"server", "socket", false, "Unix socket of the API. Anybody may connect; peers decide.",
        false, &get_member<&Config::server, &Config::Server::socket>,
        &set_member<&Config::server, &Config::Server::socket>},
    Key{"server", "allowed_hosts", false,
        "Names by which clients may address the TCP listeners, beside localhost and the address "
        "itself.",
        true, &get_member<&Config::server, &Config::Server::allowed_hosts>,
        &set_member<&Config::server, &Config::Server::allowed_hosts>},
    Key{"state", "directory", false, "Where the daemon keeps what must survive it.", false,
        &get_member<&Config::state, &Config::State::directory>,
        &set_member<&Config::state, &Config::State::directory>},
    Key{"driver", "nvml", false, "Path of libnvidia-ml.so.1; empty: where the loader finds it.",
        false, &get_member<&Config::driver, &Config::Driver::nvml>,
        &set_member<&Config::driver, &Config::Driver::nvml>},
    Key{"metrics", "prefix", false, "First word of every metric name.", false,
        &get_member<&Config::metrics, &Config::Metrics::prefix>,
        &set_member<&Config::metrics, &Config::Metrics::prefix>},
    Key{"log", "level", false, "debug, info, warning or error.", false, &get_level,
        &set_level_value},
};

std::string quoted(std::string_view text) {
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
  if (const auto* text = std::get_if<std::string>(&value)) return quoted(*text);
  std::string out = "[";
  for (const std::string& element : std::get<Strings>(value)) {
    if (out.size() > 1) out += ", ";
    out += quoted(element);
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
