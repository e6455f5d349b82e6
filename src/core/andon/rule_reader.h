// Rules from TOML: the built-in set, and what a user's file changes in it, adds to it or switches
// off.
#pragma once

#include <string>
#include <string_view>

#include "andon/rule.h"
#include "base/result.h"

namespace gpuyard::andon {

inline constexpr std::size_t kMostRules = 256;
inline constexpr std::size_t kMostText = 512;  // of a message, an advice, a name in a list
inline constexpr std::size_t kMostListed = 64;

// The tables [rule.NAME] of `text` over `rules`: of a rule that is there the keys that are said,
// else a new one. Tables [sink.NAME] are somebody else's. Errc::invalid: "alerts.toml:3: ...", and
// what is known or allowed.
Result<Rules> with_rules(Rules rules, std::string_view text, const std::string& file);

// The set that is built in, as a user may read it.
std::string_view built_in_text();
const Rules& built_in_rules();

}  // namespace gpuyard::andon
