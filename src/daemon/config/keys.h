// The table of configuration keys: name, meaning, whether a reload applies it. Reading a file,
// printing the configuration in force and the commented file that `config init` writes derive from
// it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "daemon/config/config.h"

namespace gpuyard::config {

using Value = std::variant<std::string, std::vector<std::string>, std::int64_t, bool>;
enum class Type { text, list, integer, boolean };  // which of them, in that order

struct Key {
  std::string_view section;
  std::string_view name;
  bool live;  // a reload applies it; otherwise the next start does
  std::string_view help;
  Type type;
  Value (*get)(const Config&);
  Result<void> (*set)(Config&, const Value&);  // the value has the right type already
};

std::span<const Key> keys();

// The level by its name: debug, info, warning, error.
Result<void> set_level(Config&, const std::string& name);

// The dialect of metrics by its name: gpuyard, dcgm-4.8, both.
Result<void> set_dialect(Config&, const std::string& name);

// The keys, as "server.listen", of which another value takes effect only at the next start.
std::vector<std::string> restart_keys_that_differ(const Config&, const Config&);

// TOML with every key, its meaning and its value; commented out for `config init`.
enum class Style { values, commented_template };
std::string render(const Config&, Style);

}  // namespace gpuyard::config
