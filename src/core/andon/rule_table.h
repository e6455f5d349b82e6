// One [rule.NAME] table read key by key, with the line of whatever is wrong. Inner header: only
// rule_reader.cpp, rule_keys.cpp and, for what is written of the keys, reference.cpp look here.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "andon/rule.h"
#include "base/result.h"
#include "base/third_party/toml.h"

namespace gpuyard::andon {

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
