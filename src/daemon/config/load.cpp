// From the text of a configuration file to the configuration.
#include "daemon/config/load.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/files.h"
#include "base/third_party/toml.h"
#include "base/trusted_file.h"
#include "daemon/config/keys.h"

namespace gpuyard::config {
namespace {

constexpr std::size_t kMaxFile = std::size_t{256} * 1024;

// The last of the configuration files wins, and so does the last that has one beside it.
std::string alerts_beside(const std::vector<std::string>& files) {
  std::string found;
  for (const std::string& file : files) {
    const std::string beside = parent_directory(file) + "/alerts.toml";
    if (::access(beside.c_str(), F_OK) == 0) found = beside;
  }
  return found;
}

class FileReader {
 public:
  FileReader(const std::string& file, Config& config) : file_(file), config_(config) {}

  Result<void> read(const toml::table& document) {
    for (const auto& [name, node] : document) {
      const auto* section = node.as_table();
      if (section == nullptr || !is_section(name.str())) return unknown(name.str(), name);
      for (const auto& [key, value] : *section) {
        if (auto done = set(name.str(), key, value); !done) return done;
      }
    }
    return {};
  }

 private:
  static bool is_section(std::string_view name) {
    return std::any_of(keys().begin(), keys().end(),
                       [&](const Key& key) { return key.section == name; });
  }

  Error at(const toml::source_region& where, const std::string& what) const {
    return {Errc::invalid, fmt::format("{}:{}: {}", file_, where.begin.line, what)};
  }

  Error unknown(std::string_view name, const toml::key& where) const {
    std::string known;
    for (const Key& key : keys()) known += fmt::format(" {}.{}", key.section, key.name);
    return at(where.source(), fmt::format("unknown key \"{}\"; known are{}", name, known));
  }

  Result<void> set(std::string_view section, const toml::key& name, const toml::node& node) {
    const auto key = std::find_if(keys().begin(), keys().end(), [&](const Key& candidate) {
      return candidate.section == section && candidate.name == name.str();
    });
    if (key == keys().end()) return unknown(fmt::format("{}.{}", section, name.str()), name);
    const auto value = value_of(node, key->type);
    if (!value) {
      return at(node.source(),
                fmt::format("{}.{} must be {}", section, name.str(), what_is(key->type)));
    }
    if (auto done = key->set(config_, *value); !done) {
      return at(node.source(), fmt::format("{}.{}: {}", section, name.str(), done.error().message));
    }
    return {};
  }

  static std::string_view what_is(Type type) {
    switch (type) {
      case Type::text:
        return "a string";
      case Type::list:
        return "a list of strings";
      case Type::integer:
        return "an integer";
      case Type::boolean:
        break;
    }
    return "true or false";
  }

  static std::optional<Value> value_of(const toml::node& node, Type type) {
    if (type == Type::text) return text_of(node);
    if (type == Type::list) return list_of(node);
    if (type == Type::boolean) {
      const auto* yes = node.as_boolean();
      return yes != nullptr ? std::optional<Value>(yes->get()) : std::nullopt;
    }
    const auto* number = node.as_integer();
    return number != nullptr ? std::optional<Value>(number->get()) : std::nullopt;
  }

  static std::optional<Value> text_of(const toml::node& node) {
    const auto* text = node.as_string();
    return text != nullptr ? std::optional<Value>(text->get()) : std::nullopt;
  }

  static std::optional<Value> list_of(const toml::node& node) {
    const auto* array = node.as_array();
    if (array == nullptr) return std::nullopt;
    std::vector<std::string> strings;
    for (const auto& element : *array) {
      const auto* text = element.as_string();
      if (text == nullptr) return std::nullopt;
      strings.push_back(text->get());
    }
    return strings;
  }

  const std::string& file_;
  Config& config_;
};

}  // namespace

Result<void> apply_toml(Config& config, std::string_view text, const std::string& file) {
  const toml::parse_result parsed = toml::parse(text, file);
  if (!parsed) {
    return Error{Errc::invalid, fmt::format("{}:{}: {}", file, parsed.error().source().begin.line,
                                            parsed.error().description())};
  }
  Config changed = config;
  if (auto done = FileReader(file, changed).read(parsed.table()); !done) return done;
  config = std::move(changed);
  return {};
}

std::vector<std::string> files_read(const Environment& environment, const std::string& file) {
  return file.empty() ? default_files(environment) : std::vector{file};
}

Result<Config> load(const Environment& environment, const std::string& file) {
  Config config;
  for (const std::string& path : files_read(environment, file)) {
    // It names the library that a daemon loads.
    if (auto trusted = check_trusted_by_root(path); !trusted) return std::move(trusted).error();
    const auto text = read_file(path, kMaxFile);
    if (!text && text.error().code == Errc::not_found && file.empty()) continue;
    if (!text) return Error{Errc::invalid, text.error().message};
    if (auto done = apply_toml(config, *text, path); !done) return done.error();
  }
  if (config.alerts.file.empty()) config.alerts.file = alerts_beside(files_read(environment, file));
  return with_places(std::move(config), environment);
}

Config with_places(Config config, const Environment& environment) {
  // The environment names the socket for daemon and clients alike, so it wins over the files.
  if (config.server.socket.empty() || !environment.gpuyard_socket.empty()) {
    config.server.socket = default_socket(environment);
  }
  if (config.state.directory.empty()) {
    config.state.directory = default_state_directory(environment);
  }
  return config;
}

}  // namespace gpuyard::config
