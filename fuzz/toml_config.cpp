// Reads any text as the configuration file: it is applied whole, or refused with file and line and
// without any change.
#include <cstddef>
#include <cstdint>

#include "daemon/config/config.h"
#include "require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using gpuyard::fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  gpuyard::config::Config config;
  config.server.socket = "/before";
  const auto applied = gpuyard::config::apply_toml(config, text, "x.toml");
  if (!applied) {
    require(applied.error().message.starts_with("x.toml:"), "a refusal names the file");
    require(config.server.socket == "/before", "a refused file changes nothing");
  }
  return 0;
}
