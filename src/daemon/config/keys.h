// The table of configuration keys: name, meaning, whether a reload applies it. It is the source for
// reading a file, for printing the configuration in force, and for the commented file that `config
// init` writes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "daemon/config/config.h"

namespace gpuyard::config {

using Value = std::variant<std::string, std::vector<std::string>, std::int64_t, bool, double>;
// The alternatives of Value, in that order.
enum class Type { text, list, integer, boolean, number };

// Whether a value is the path of a file, which has to be absolute: one that is relative would be
// another file wherever the daemon is started.
enum class Path : std::uint8_t {
  none,
  file,
  file_or_auto,  // or the word "auto"
  file_or_name,  // or a name without a slash, which the loader finds
};

struct Key {
  std::string_view section;
  std::string_view name;
  bool live;  // whether a reload applies it, or only the next start
  std::string_view help;
  Type type;
  Value (*get)(const Config&);
  Result<void> (*set)(Config&, const Value&);  // the value has the right type already
  Path path = Path::none;
};

std::span<const Key> keys();

// The role of a client certificate.
struct CertificateRole {
  std::string name;   // "DNS:prometheus.lab"
  std::string scope;  // "metrics", "read", "lease", "control", "admin"
  std::optional<std::uint32_t> uid;
};
Result<CertificateRole> certificate_role_of(std::string_view text);

// Sets the level by its name: debug, info, warning, error.
Result<void> set_level(Config&, const std::string& name);

// Sets the dialect of metrics by its name: gpuyard, dcgm-4.8, both.
Result<void> set_dialect(Config&, const std::string& name);

// Returns the keys that differ and take effect only at the next start, as "server.listen".
std::vector<std::string> changed_restart_keys(const Config&, const Config&);

}  // namespace gpuyard::config
