#include "andon/rule_reader.h"

#include <algorithm>

#include <fmt/format.h>

#include "andon/rule_table.h"

namespace gpuyard::andon {
namespace {

constexpr std::size_t kMostName = 48;

// A name is a part of a URL, of a metric's label and of a terminal's line.
bool is_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  return !name.empty() && name.size() <= kMostName && std::ranges::all_of(name, fits);
}

class Reader {
 public:
  Reader(const std::string& file, Rules rules) : file_(file), rules_(std::move(rules)) {}

  Result<Rules> read(const toml::table& document) {
    for (const auto& [name, node] : document) {
      if (name.str() == "sink") continue;
      const auto* table = node.as_table();
      if (name.str() != "rule" || table == nullptr) {
        return at(name.source(), fmt::format("unknown \"{}\"; there are tables [rule.NAME] and "
                                             "[sink.NAME]",
                                             name.str()));
      }
      if (auto done = read_rules(*table); !done) return std::move(done).error();
    }
    std::ranges::sort(rules_, {}, &Rule::name);
    if (auto known = check_inhibits(); !known) return std::move(known).error();
    return std::move(rules_);
  }

 private:
  Error at(const toml::source_region& where, const std::string& what) const {
    return {Errc::invalid, fmt::format("{}:{}: {}", file_, where.begin.line, what)};
  }

  Result<void> check_inhibits() const {
    for (const Rule& rule : rules_) {
      for (const std::string& other : rule.inhibits) {
        if (other == "*" || find_rule(rules_, other) != nullptr) continue;
        return Error{Errc::invalid, fmt::format("{}: rule {}: inhibits: there is no rule \"{}\"",
                                                file_, rule.name, other)};
      }
    }
    return {};
  }

  Result<void> read_rules(const toml::table& all) {
    for (const auto& [name, node] : all) {
      const auto* table = node.as_table();
      if (table == nullptr) return at(name.source(), "a rule is a table [rule.NAME]");
      if (!is_name(name.str())) {
        return at(name.source(), fmt::format("\"{}\" cannot name a rule: 1 to {} of a-z, 0-9, "
                                             "'-' and '_'",
                                             name.str(), kMostName));
      }
      if (auto done = read_rule(std::string(name.str()), *table, name.source()); !done) {
        return done;
      }
    }
    return {};
  }

  Result<void> read_rule(const std::string& name, const toml::table& table,
                         const toml::source_region& where) {
    const auto known = std::ranges::find(rules_, name, &Rule::name);
    Rule rule = known != rules_.end() ? *known : Rule{};
    rule.name = name;
    if (auto done = read_keys(rule, table); !done) return done;
    if (known == rules_.end() && !table.contains("at")) {
      return at(where, fmt::format("rule {}: it does not say from when on it trips: at", name));
    }
    if (const std::string fault = fault_of(rule); !fault.empty()) {
      return at(where, fmt::format("rule {}: {}", name, fault));
    }
    if (known != rules_.end()) {
      *known = std::move(rule);
    } else if (rules_.size() == kMostRules) {
      return at(where, fmt::format("more than {} rules", kMostRules));
    } else {
      rules_.push_back(std::move(rule));
    }
    return {};
  }

  Result<void> read_keys(Rule& rule, const toml::table& table) {
    for (const auto& [name, node] : table) {
      const auto same = [&](const RuleKey& key) { return key.name == name.str(); };
      if (std::ranges::none_of(rule_keys(), same)) return unknown_key(rule, name);
    }
    for (const RuleKey& key : rule_keys()) {
      const toml::node* const node = table.get(key.name);
      if (node == nullptr) continue;
      const Wrong wrong = key.take(rule, *node);
      if (!wrong) continue;
      return at(node->source(), fmt::format("rule {}: {} must be {}{}{}", rule.name, key.name,
                                            key.must_be, wrong->empty() ? "" : ": ", *wrong));
    }
    return {};
  }

  Error unknown_key(const Rule& rule, const toml::key& name) const {
    std::string known;
    for (const RuleKey& key : rule_keys()) known += fmt::format(" {}", key.name);
    return at(name.source(), fmt::format("rule {}: unknown key \"{}\"; known are{}", rule.name,
                                         name.str(), known));
  }

  const std::string& file_;
  Rules rules_;
};

}  // namespace

Result<Rules> with_rules(Rules rules, std::string_view text, const std::string& file) {
  const toml::parse_result parsed = toml::parse(text, file);
  if (!parsed) {
    return Error{Errc::invalid, fmt::format("{}:{}: {}", file, parsed.error().source().begin.line,
                                            parsed.error().description())};
  }
  return Reader(file, std::move(rules)).read(parsed.table());
}

const Rules& built_in_rules() {
  static const Rules rules = [] {
    auto read = with_rules({}, built_in_text(), "built-in rules");
    return read ? *std::move(read) : Rules{};  // a test reads them
  }();
  return rules;
}

}  // namespace gpuyard::andon
