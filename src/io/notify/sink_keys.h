// The keys of a table `[sink.NAME]`: which kinds of sink have them, and what each may be. Inner
// header; knows no TOML.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "notify/sink_config.h"

namespace gpuyard::notify {

using SinkValue = std::variant<std::string, std::vector<std::string>, std::int64_t>;

// A sink of which not everything was read yet.
struct SinkDraft {
  SinkConfig sink;
  std::string ca_file;
  std::string username;
  Secret password;
  Secret bearer_token;
};

struct SinkKey {
  std::string_view name;
  std::vector<SinkKind> kinds;  // empty: all
  enum class Type { text, list, integer } type;
  // The error does not repeat the value, which may be a secret.
  Result<void> (*set)(SinkDraft&, const SinkValue&);
};

std::span<const SinkKey> sink_keys();

// The sink, or what is wrong with it as a whole.
Result<SinkConfig> finished(SinkDraft draft);

}  // namespace gpuyard::notify
