#include "daemon/config/config.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "base/toml_reader.h"
#include "base/trusted_file.h"
#include "base/try.h"
#include "daemon/config/keys.h"

namespace gpuyard::config {

std::string Config::location_of(const std::string& key) const {
  const auto found = set_at.find(key);
  return found == set_at.end() ? key : fmt::format("{}: {}", found->second, key);
}

std::string lease_socket_of(const Config::Server& server) {
  if (server.lease_socket != "auto") return server.lease_socket;
  constexpr std::string_view kDefaultSocketName = "gpuyard.sock";
  constexpr std::string_view kSocketSuffix = ".sock";
  const std::size_t slash = server.socket.rfind('/');
  const std::string directory =
      slash == server.socket.npos ? "" : server.socket.substr(0, slash + 1);
  std::string name = server.socket.substr(directory.size());
  if (name == kDefaultSocketName) return directory + "lease.sock";
  if (name.ends_with(kSocketSuffix)) name.resize(name.size() - kSocketSuffix.size());
  return directory + name + ".lease.sock";
}

std::string Config::certificate_file() const {
  return tls.certificate.empty() ? state.directory + "/tls/certificate.pem" : tls.certificate;
}
std::string Config::key_file() const {
  return tls.key.empty() ? state.directory + "/tls/key.pem" : tls.key;
}

Result<CertificateRole> certificate_role_of(std::string_view text) {
  const std::size_t equals = text.rfind(" = ");
  CertificateRole client;
  std::string_view rest = equals == text.npos ? "" : trim(text.substr(equals + 3));
  client.name = trim(text.substr(0, equals));
  client.scope = take_until(' ', rest);
  const bool named = client.name.starts_with("DNS:") || client.name.starts_with("URI:");
  constexpr std::array<std::string_view, 5> kScopes = {"metrics", "read", "lease", "control",
                                                       "admin"};
  bool good = named && std::ranges::count(kScopes, client.scope) > 0;
  if (good && !rest.empty()) {
    const bool of_user = take_until(' ', rest) == "uid";
    client.uid = parse_number<std::uint32_t>(rest);
    good = of_user && client.uid;
  }
  // Leases and settings belong to a user.
  if (good && !client.uid) good = client.scope == "metrics" || client.scope == "read";
  if (good) return client;
  return Error{Errc::invalid,
               fmt::format("expected NAME = metrics, NAME = read or NAME = SCOPE uid NUMBER, where "
                           "NAME begins with DNS: or URI:; got \"{}\"",
                           printable(text))};
}

// Makes the configuration from the text of configuration files.
namespace {

constexpr std::size_t kMaxFile = std::size_t{256} * 1024;

// The last of the configuration files wins, and so does the last alerts.toml beside one.
std::string default_alerts_file(const std::vector<std::string>& files) {
  std::string found;
  for (const std::string& file : files) {
    const std::string beside = parent_directory(file) + "/alerts.toml";
    if (::access(beside.c_str(), F_OK) == 0) found = beside;
  }
  return found;
}

class FileReader {
 public:
  FileReader(const std::string& file, const std::string& home, Config& config)
      : file_(file), home_(home), config_(config) {}

  Result<void> read(const toml::table& document) {
    for (const auto& [name, node] : document) {
      const auto* section = node.as_table();
      if (!is_section(name.str()))
        return unknown_key_error("", name, section == nullptr ? "key" : "section");
      if (section == nullptr) {
        return toml_error(
            file_, node.source(),
            fmt::format("{0}: expected a section [{0}]; got {1}", name.str(), toml_text(node)));
      }
      for (const auto& [key, value] : *section) {
        GPUYARD_TRY(set(name.str(), key, value));
      }
    }
    return {};
  }

 private:
  static bool is_section(std::string_view name) {
    return std::any_of(keys().begin(), keys().end(),
                       [&](const Key& key) { return key.section == name; });
  }

  // `section` is empty if the section itself is unknown.
  Error unknown_key_error(std::string_view section, const toml::key& where,
                          std::string_view what) const {
    std::vector<std::string_view> near;
    for (const Key& key : keys()) {
      if (section.empty()) near.push_back(key.section);
      if (key.section == section) near.push_back(key.name);
    }
    Error error = toml_error(file_, where.source(),
                             unknown_word(what, where.str(), near, "",
                                          section.empty() ? "" : fmt::format("{}.", section)));
    error.hint = "gpuyard config init  # prints all keys";
    return error;
  }

  Result<void> set(std::string_view section, const toml::key& name, const toml::node& node) {
    const auto key = std::find_if(keys().begin(), keys().end(), [&](const Key& candidate) {
      return candidate.section == section && candidate.name == name.str();
    });
    if (key == keys().end()) return unknown_key_error(section, name, "key");
    const auto type = static_cast<std::size_t>(key->type);
    auto value = toml_value<Value>(node, type);
    if (!value) {
      return toml_error(file_, node.source(),
                        fmt::format("{}.{}: expected {}; got {}", section, name.str(),
                                    kTomlTypes.at(type), toml_text(node)));
    }
    config_.set_at[fmt::format("{}.{}", section, name.str())] =
        fmt::format("{}:{}", file_, node.source().begin.line);
    auto done = make_absolute(*key, *value);
    if (done) done = key->set(config_, *value);
    if (!done) {
      return toml_error(file_, node.source(),
                        fmt::format("{}.{}: {}", section, name.str(), done.error().text()));
    }
    return {};
  }

  Result<void> make_absolute(const Key& key, Value& value) const {
    auto* const text = std::get_if<std::string>(&value);
    if (key.path == Path::none || text == nullptr || text->empty()) return {};
    if (key.path == Path::file_or_auto && *text == "auto") return {};
    if (key.path == Path::file_or_name && text->find('/') == text->npos) return {};
    *text = GPUYARD_TRY(absolute_path(*text, home_));
    return {};
  }

  const std::string& file_;
  const std::string& home_;
  Config& config_;
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
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  std::string out = "[";
  for (const std::string& element : std::get<std::vector<std::string>>(value)) {
    if (out.size() > 1) out += ", ";
    out += in_quotes(element);
  }
  return out + "]";
}

}  // namespace

Result<void> apply_toml(Config& config, std::string_view text, const std::string& file,
                        const std::string& home) {
  const auto document = GPUYARD_TRY(parse_toml(text, file));
  Config changed = config;
  GPUYARD_TRY(FileReader(file, home, changed).read(document));
  config = std::move(changed);
  return {};
}

std::vector<std::string> config_files(const Environment& environment, const std::string& file) {
  return file.empty() ? default_config_files(environment) : std::vector{file};
}

Result<Config> load(const Environment& environment, const std::string& file) {
  Config config;
  for (const std::string& path : config_files(environment, file)) {
    if (struct stat info{}; file.empty() && ::stat(path.c_str(), &info) != 0 && errno == ENOENT) {
      continue;
    }
    // The file names the library that a daemon loads. Nobody else may write to the file of root's
    // daemon, or of one with capabilities.
    GPUYARD_TRY(check_trusted_by_root(path));
    const auto text = read_file(path, kMaxFile);
    if (!text && text.error().code == Errc::not_found && file.empty()) continue;
    if (!text) return Error{Errc::invalid, text.error().text()};
    GPUYARD_TRY(apply_toml(config, *text, path, environment.home));
  }
  if (config.alerts.file.empty())
    config.alerts.file = default_alerts_file(config_files(environment, file));
  return with_default_paths(std::move(config), environment);
}

Config with_default_paths(Config config, const Environment& environment) {
  // The environment names the socket for daemon and clients alike, so it wins over the files.
  if (config.server.socket.empty() || !environment.gpuyard_socket.empty()) {
    config.server.socket = default_socket(environment);
  }
  if (config.state.directory.empty()) {
    config.state.directory = default_state_directory(environment);
  }
  return config;
}

std::string render(const Config& config, Style style) {
  std::string out = "# gpuyard configuration\n";
  std::string_view section;
  for (const Key& key : keys()) {
    if (key.section != section) out += fmt::format("\n[{}]\n", section = key.section);
    out += fmt::format("# {} ({})\n", key.help, key.live ? "live" : "restart");
    out += fmt::format("{}{} = {}\n", style == Style::commented_template ? "# " : "", key.name,
                       to_toml(key.get(config)));
  }
  return out;
}

std::map<std::string, std::string> section_digests(const Config& config) {
  // Sections, and keys of others, that are of one machine: addresses, paths, UUIDs.
  constexpr std::array<std::string_view, 10> kMachineSections = {"server",
                                                                 "state",
                                                                 "tls",
                                                                 "alerts",
                                                                 "zeus.listen",
                                                                 "driver.nvml",
                                                                 "telemetry.pci_root",
                                                                 "processes.proc_root",
                                                                 "processes.marks_socket",
                                                                 "health.temperatures_of"};
  const auto is_own = [&](std::string_view name) {
    return std::ranges::find(kMachineSections, name) != kMachineSections.end();
  };
  const Config usual;
  std::map<std::string, std::string> texts;
  for (const Key& key : keys()) {
    if (is_own(key.section) || is_own(fmt::format("{}.{}", key.section, key.name))) continue;
    if (key.get(config) == key.get(usual)) continue;
    texts[std::string(key.section)] += fmt::format("{}={}\n", key.name, to_toml(key.get(config)));
  }
  for (auto& [section, text] : texts) {
    text = fmt::format("{:016x}", std::hash<std::string>{}(text));
  }
  return texts;
}

}  // namespace gpuyard::config
