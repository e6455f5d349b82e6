// Rules from TOML: the built-in set, and what a user's file changes in it, adds to it or switches
// off.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "andon/rule.h"
#include "base/result.h"
#include "base/toml_reader.h"

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

// One [rule.NAME] table read key by key, with the line of whatever is wrong. Inner header: only
// rule_reader.cpp, rule_keys.cpp and, for what is written of the keys, reference.cpp look here.

// Why a value is not taken, as the end of a sentence; "": it is not what it must be.
using Wrong = std::optional<std::string>;

struct RuleKey {
  std::string_view name;
  std::string_view must_be;
  Wrong (*take)(Rule&, const toml::node&);
  std::string_view help;  // one line
};

const std::vector<RuleKey>& rule_keys();

// What `on` may name: signals, metrics, events.
std::optional<Source> source_named(std::string_view name);
std::string sources_known();

// What is wrong with a rule as a whole, or "".
std::string fault_of(const Rule&);

}  // namespace gpuyard::andon
