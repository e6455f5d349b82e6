#include "core/andon/rule_reader.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/record.h"
#include "base/text.h"
#include "base/try.h"
#include "core/andon/sliding_windows.h"
#include "gpu/device/catalog.h"

namespace gpuyard::andon {
namespace {

constexpr std::size_t kMaxRuleNameLength = 48;

// A name becomes part of a URL, of a metric's label and of a line on a terminal.
bool is_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  return !name.empty() && name.size() <= kMaxRuleNameLength && std::ranges::all_of(name, fits);
}

class RuleReader {
 public:
  RuleReader(const std::string& file, Rules rules) : file_(file), rules_(std::move(rules)) {}

  Result<Rules> read(const toml::table& document) {
    for (const auto& [name, node] : document) {
      if (name.str() == "sink") continue;
      const auto* table = node.as_table();
      if (name.str() != "rule" || table == nullptr) {
        return at(
            name.source(),
            fmt::format("unknown \"{}\"; expected a table [rule.NAME] or [sink.NAME]", name.str()));
      }
      GPUYARD_TRY(read_rules(*table));
    }
    std::ranges::sort(rules_, {}, &Rule::name);
    GPUYARD_TRY(check_inhibits());
    return std::move(rules_);
  }

 private:
  Error at(const toml::source_region& where, const std::string& what) const {
    return toml_error(file_, where, what);
  }

  Result<void> check_inhibits() const {
    for (const Rule& rule : rules_) {
      for (const std::string& other : rule.inhibits) {
        if (other == "*" || find_rule(rules_, other) != nullptr) continue;
        std::vector<std::string_view> known;
        for (const Rule& one : rules_) known.push_back(one.name);
        return Error{Errc::invalid, fmt::format("{}: rule {}: inhibits: {}", file_, rule.name,
                                                unknown_word("rule", other, known))};
      }
    }
    return {};
  }

  Result<void> read_rules(const toml::table& all) {
    for (const auto& [name, node] : all) {
      const auto* table = node.as_table();
      if (table == nullptr) return at(name.source(), "a rule must be a table [rule.NAME]");
      if (!is_name(name.str())) {
        return at(name.source(),
                  fmt::format("invalid rule name \"{}\": use 1 to {} of a-z, 0-9, '-' and '_'",
                              name.str(), kMaxRuleNameLength));
      }
      GPUYARD_TRY(read_rule(std::string(name.str()), *table, name.source()));
    }
    return {};
  }

  Result<void> read_rule(const std::string& name, const toml::table& table,
                         const toml::source_region& where) {
    const auto known = std::ranges::find(rules_, name, &Rule::name);
    Rule rule = known != rules_.end() ? *known : Rule{};
    rule.name = name;
    GPUYARD_TRY(read_keys(rule, table));
    if (known == rules_.end() && !table.contains("at")) {
      return at(where, fmt::format("rule {}: missing key at (the threshold)", name));
    }
    if (const std::string fault = rule_error(rule); !fault.empty()) {
      return at(where, fmt::format("rule {}: {}", name, fault));
    }
    if (known != rules_.end()) {
      *known = std::move(rule);
    } else if (rules_.size() == kMaxRules) {
      return at(where, fmt::format("more than {} rules", kMaxRules));
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
      const ValueError wrong = key.read(rule, *node);
      if (!wrong) continue;
      const std::string fault =
          !wrong->empty() ? *wrong
                          : fmt::format("expected {}; got {}", key.must_be, toml_text(*node));
      return at(node->source(), fmt::format("rule {}: {}: {}", rule.name, key.name, fault));
    }
    return {};
  }

  Error unknown_key(const Rule& rule, const toml::key& name) const {
    std::vector<std::string_view> known;
    for (const RuleKey& key : rule_keys()) known.push_back(key.name);
    return at(name.source(),
              fmt::format("rule {}: {}", rule.name,
                          unknown_word("key", name.str(), known,
                                       fmt::format("; known keys: {}", fmt::join(known, " ")))));
  }

  const std::string& file_;
  Rules rules_;
};

constexpr double kMaxSeconds = 30.0 * 24 * 3600;  // seconds
constexpr double kMaxNumber = 1e15;
constexpr double kMaxWatts = 100'000;
constexpr std::string_view kTextExpected = "a string of at most 512 characters";
constexpr std::string_view kTextsExpected = "a list of at most 64 strings";
constexpr std::string_view kSecondsExpected = "a number of seconds from 0 to 2592000";
constexpr std::string_view kFlagExpected = "true or false";
constexpr std::string_view kNumberExpected = "a number from -1e15 to 1e15";
constexpr const char* kDefaultMessage = "";  // `must_be` says it all

std::optional<double> number_of(const toml::node& node) {
  const auto value = node.is_number() ? node.value<double>() : std::nullopt;
  return value && std::isfinite(*value) && std::abs(*value) <= kMaxNumber ? value : std::nullopt;
}

std::optional<std::string> text_of(const toml::node& node) {
  auto text = toml_as<std::string>(node);
  return text && text->size() <= kMaxTextLength ? std::move(text) : std::nullopt;
}

std::optional<std::vector<std::string>> texts_of(const toml::node& node) {
  auto texts = toml_as<std::vector<std::string>>(node);
  if (!texts || texts->size() > kMaxListLength) return std::nullopt;
  const auto too_long = [](const std::string& text) { return text.size() > kMaxTextLength; };
  return std::ranges::any_of(*texts, too_long) ? std::nullopt : std::move(texts);
}

std::optional<Duration> seconds_of(const toml::node& node) {
  const auto value = number_of(node);
  if (!value || *value < 0 || *value > kMaxSeconds) return std::nullopt;
  return Duration(static_cast<Duration::rep>(*value * 1e9));
}

std::optional<Curve> curve_of(const toml::node& node) {
  return enum_from_name<Curve>(toml_as<std::string>(node).value_or(""));
}

// Stores what `Parse` makes of the node. The member may be an optional itself.
template <auto Member, auto Parse>
ValueError read_member(Rule& rule, const toml::node& node) {
  const auto value = Parse(node);
  if (!value) return kDefaultMessage;
  const auto& parsed = *value;
  rule.*Member = parsed;
  return {};
}

ValueError read_on(Rule& rule, const toml::node& node) {
  const auto name = text_of(node);
  if (!name) return kDefaultMessage;
  const auto source = find_source(*name);
  if (!source) return fmt::format("unknown name \"{}\"; known names:{}", *name, known_sources());
  rule.on = *name;
  rule.source = *source;
  return {};
}

ValueError read_xids(Rule& rule, const toml::node& node) {
  const auto* list = node.as_array();
  auto* const events = std::get_if<EventCondition>(&rule.source);
  if (list == nullptr || list->size() > kMaxListLength) return kDefaultMessage;
  if (events == nullptr || events->kind != EventKind::xid) {
    return "only allowed with on = \"xid\"";
  }
  std::vector<std::uint32_t> xids;
  for (const auto& element : *list) {
    const auto number = toml_as<std::int64_t>(element);
    if (!number || *number < 0 || *number > 0xFFFF) return kDefaultMessage;
    xids.push_back(static_cast<std::uint32_t>(*number));
  }
  events->xids = std::move(xids);
  return {};
}

ValueError read_event_severity(Rule& rule, const toml::node& node) {
  const auto names = toml_as<std::vector<std::string>>(node);
  auto* const events = std::get_if<EventCondition>(&rule.source);
  if (!names) return kDefaultMessage;
  if (events == nullptr) return "only allowed in a rule on events";
  std::vector<EventSeverity> severities;
  for (const std::string& name : *names) {
    const auto severity = enum_from_name<EventSeverity>(name);
    if (!severity) return kDefaultMessage;
    severities.push_back(*severity);
  }
  events->severities = std::move(severities);
  return {};
}

ValueError read_severity(Rule& rule, const toml::node& node) {
  const auto number = toml_as<std::int64_t>(node);
  if (!number || *number < 0 || *number > 100) return kDefaultMessage;
  rule.severity = static_cast<int>(*number);
  rule.curve = Curve::none;
  return {};
}

ValueError read_message(Rule& rule, const toml::node& node) {
  auto text = text_of(node);
  if (!text || text->empty()) return kDefaultMessage;
  if (const auto unknown = unknown_placeholder(*text)) {
    std::string known;
    for (const std::string_view one : kPlaceholders) known += fmt::format(" {{{}}}", one);
    return fmt::format("unknown placeholder {{{}}}; known placeholders:{}", *unknown, known);
  }
  rule.message = *std::move(text);
  return {};
}

}  // namespace

Result<Rules> apply_rules(Rules rules, std::string_view text, const std::string& file) {
  const auto document = GPUYARD_TRY(parse_toml(text, file));
  return RuleReader(file, std::move(rules)).read(document);
}

const Rules& built_in_rules() {
  static const Rules rules = [] {
    auto read = apply_rules({}, built_in_text(), "built-in rules");
    return read ? *std::move(read) : Rules{};  // a test reads them
  }();
  return rules;
}

// The keys of a rule, one row each. `on` comes first, because the other keys of a rule depend on
// it.
const std::vector<RuleKey>& rule_keys() {
  static const std::vector<RuleKey> keys = {
      {"on", "the name of a signal, an event or a metric", &read_on,
       "The signal, event or metric to watch. Required for a new rule."},
      {"enabled", kFlagExpected, &read_member<&Rule::enabled, &toml_as<bool>>,
       "false disables the rule."},
      {"at", kNumberExpected, &read_member<&Rule::at, &number_of>,
       "Threshold at which the rule triggers. Required for a new rule."},
      {"below", kFlagExpected, &read_member<&Rule::below, &toml_as<bool>>,
       "true: triggers at or below `at` instead of at or above."},
      {"clear_at", kNumberExpected, &read_member<&Rule::clear_at, &number_of>,
       "Clears beyond this value. Default: as soon as `at` is no longer reached."},
      {"hold_s", kSecondsExpected, &read_member<&Rule::hold, &seconds_of>,
       "Seconds for which `at` must stay reached before the rule fires."},
      {"clear_hold_s", kSecondsExpected, &read_member<&Rule::clear_hold, &seconds_of>,
       "Seconds for which it must stay clear before the alert ends."},
      {"over_s", kSecondsExpected, &read_member<&Rule::over, &seconds_of>,
       "Time window in seconds: counts the events in it, or the growth of a metric."},
      {"xids", "a list of at most 64 numbers from 0 to 65535", &read_xids,
       "With on = \"xid\": the Xid numbers. Default: those that no other rule names."},
      {"event_severity", "a list of \"note\", \"warn\" and \"stop\"", &read_event_severity,
       "With events: only those of these severities. Default: all."},
      {"severity", "an integer from 0 to 100", &read_severity,
       "Fixed severity, independent of the value."},
      {"curve", "\"none\", \"thermal\", \"memory\", \"power\" or \"idle\"",
       &read_member<&Rule::curve, &curve_of>,
       "Severity that depends on the value, instead of `severity`."},
      {"gpus", kTextsExpected, &read_member<&Rule::gpus, &texts_of>,
       "Only these GPUs, by index, UUID or PCI address. Default: all."},
      {"inhibits", kTextsExpected, &read_member<&Rule::inhibits, &texts_of>,
       "Rules that neither trigger nor clear for the GPU while this one fires; \"*\" for all."},
      {"notify", kFlagExpected, &read_member<&Rule::notify, &toml_as<bool>>,
       "false: no sink is notified; `command` still runs."},
      {"sinks", kTextsExpected, &read_member<&Rule::sinks, &texts_of>,
       "Sinks to notify, whatever the level. Default: all sinks whose min_level is reached."},
      {"quarantine", kFlagExpected, &read_member<&Rule::quarantine, &toml_as<bool>>,
       "true: withholds the GPU from new leases until the alert ends or is acknowledged."},
      {"cap_w", "a number of watts", &read_member<&Rule::cap_w, &number_of>,
       "Power limit for the GPU while the alert fires."},
      {"command", kTextsExpected, &read_member<&Rule::command, &texts_of>,
       "Program and arguments (no shell), run when the alert fires and when it ends."},
      {"message", kTextExpected, &read_message,
       "Message of the alert; placeholders in braces are filled in. Required for a new rule."},
      {"advice", kTextExpected, &read_member<&Rule::advice, &text_of>,
       "What to do, in one sentence; {gpu} is replaced."},
  };
  return keys;
}

std::optional<RuleSource> find_source(std::string_view name) {
  for (const SignalRow& row : signals()) {
    if (row.name == name) return row.signal;
  }
  if (name != "events_lost") {
    if (const auto kind = enum_from_name<EventKind>(name)) return EventCondition{*kind, {}, {}};
  }
  for (const MetricRow& row : catalog()) {
    const bool measured = row.subject == MetricSubject::device && row.kind != MetricKind::text &&
                          row.kind != MetricKind::flags;
    if (!measured || json_key(row) != name) continue;
    return MetricSource{row.metric, static_cast<double>(unit_info(row.unit).json_divisor)};
  }
  return std::nullopt;
}

std::string known_sources() {
  std::string known;
  for (const SignalRow& row : signals()) known += fmt::format(" {}", row.name);
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<EventKind>>([&](auto kind) {
    if (kind.value != EventKind::events_lost) known += fmt::format(" {}", kind.name);
  });
  return known + ", and the keys of docs/metrics.md";
}

std::string rule_error(const Rule& rule) {
  if (rule.on.empty()) return "missing key on, for example on = \"temperature_c\"";
  if (rule.message.empty()) return "missing key message";
  const bool on_events = std::holds_alternative<EventCondition>(rule.source);
  const bool on_signal = std::holds_alternative<Signal>(rule.source);
  if (on_events && !rule.over) return "a rule on events needs over_s, the time window";
  if (rule.over && (on_signal || *rule.over <= Duration::zero())) {
    return "over_s is only for events and metrics, and must be above 0";
  }
  if (rule.clear_at && (rule.below ? *rule.clear_at < rule.at : *rule.clear_at > rule.at)) {
    return "clear_at is on the wrong side of at: the rule would clear while at is reached";
  }
  if (rule.is_of_node() && (rule.quarantine || rule.cap_w || !rule.gpus.empty())) {
    return "it is about the machine, so it has no GPU to quarantine, cap or select";
  }
  if (rule.cap_w && (*rule.cap_w <= 0 || *rule.cap_w > kMaxWatts)) {
    return "cap_w must be above 0 and at most 100000";
  }
  if (on_events && (rule.below || rule.at < 1 || rule.at > 1.0 * EventWindow::kMaxEvents)) {
    return "at must be 1 to 1024 for a rule on events";
  }
  if (!rule.command.empty() && rule.command.front().empty()) return "command is empty";
  return {};
}

}  // namespace gpuyard::andon
