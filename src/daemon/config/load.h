// The configuration in force: defaults, then files, later ones winning.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "daemon/config/config.h"

namespace gpuyard::config {

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
