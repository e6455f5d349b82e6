// Reads rules from TOML: the built-in set, and a user's file that changes it, adds to it or
// switches parts of it off.
//
// Reads one [rule.NAME] table key by key, and names the line of each error. Internal: used only by
// rule_reader.cpp and, for the help of the keys, by reference_for_tests.cpp.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/toml_reader.h"
#include "core/andon/rule.h"

namespace gpuyard::andon {

inline constexpr std::size_t kMaxRules = 256;
// Bytes of a message, an advice, a name in a list.
inline constexpr std::size_t kMaxTextLength = 512;
inline constexpr std::size_t kMaxListLength = 64;

// Applies the tables [rule.NAME] of `text` to `rules`: changes the given keys of a rule that
// exists, or adds a new one. Ignores tables [sink.NAME]. Errc::invalid: "alerts.toml:3: ...", and
// what is known or allowed.
Result<Rules> apply_rules(Rules rules, std::string_view text, const std::string& file);

// The built-in set, as a user may read it.
std::string_view built_in_text();
const Rules& built_in_rules();

// Why a value is refused, as the end of a sentence; "": it is not what the key's `must_be` says.
using ValueError = std::optional<std::string>;

struct RuleKey {
  std::string_view name;
  std::string_view must_be;
  ValueError (*read)(Rule&, const toml::node&);
  std::string_view help;  // one line
};

const std::vector<RuleKey>& rule_keys();

// Returns the signal, metric or event that `on` names.
std::optional<RuleSource> find_source(std::string_view name);
std::string known_sources();

// Returns what is wrong with a rule as a whole, or "".
std::string rule_error(const Rule&);

}  // namespace gpuyard::andon
