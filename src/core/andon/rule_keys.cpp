// The keys of a rule, one row each.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "andon/rule_reader.h"
#include "andon/rule_table.h"
#include "andon/window.h"
#include "base/record.h"
#include "device/catalog.h"

namespace gpuyard::andon {
namespace {

constexpr double kLongest = 30.0 * 24 * 3600;  // seconds
constexpr double kLargest = 1e15;
constexpr double kMostWatts = 100'000;
constexpr std::string_view kText = "a text of at most 512 characters";
constexpr std::string_view kTexts = "a list of at most 64 texts";
constexpr std::string_view kSeconds = "a number of seconds from 0 to 2592000";
constexpr std::string_view kYesOrNo = "true or false";
constexpr std::string_view kNumber = "a number, at most 1e15 from 0";
constexpr const char* kAsSaid = "";  // what it must be says all

std::optional<double> number_of(const toml::node& node) {
  const auto value = node.is_number() ? node.value<double>() : std::nullopt;
  return value && std::isfinite(*value) && std::abs(*value) <= kLargest ? value : std::nullopt;
}

std::optional<std::string> text_of(const toml::node& node) {
  const auto* text = node.as_string();
  if (text == nullptr || text->get().size() > kMostText) return std::nullopt;
  return text->get();
}

template <auto Member>
Wrong take_text(Rule& rule, const toml::node& node) {
  auto text = text_of(node);
  if (!text) return kAsSaid;
  rule.*Member = *std::move(text);
  return {};
}

template <auto Member>
Wrong take_texts(Rule& rule, const toml::node& node) {
  const auto* list = node.as_array();
  if (list == nullptr || list->size() > kMostListed) return kAsSaid;
  std::vector<std::string> texts;
  for (const auto& element : *list) {
    auto text = text_of(element);
    if (!text) return kAsSaid;
    texts.push_back(*std::move(text));
  }
  rule.*Member = std::move(texts);
  return {};
}

template <auto Member>
Wrong take_flag(Rule& rule, const toml::node& node) {
  const auto* flag = node.as_boolean();
  if (flag == nullptr) return kAsSaid;
  rule.*Member = flag->get();
  return {};
}

template <auto Member>
Wrong take_number(Rule& rule, const toml::node& node) {
  const auto value = number_of(node);
  if (!value) return kAsSaid;
  const double number = *value;
  rule.*Member = number;
  return {};
}

template <auto Member>
Wrong take_seconds(Rule& rule, const toml::node& node) {
  const auto value = number_of(node);
  if (!value || *value < 0 || *value > kLongest) return kAsSaid;
  rule.*Member = Duration(static_cast<Duration::rep>(*value * 1e9));
  return {};
}

Wrong take_on(Rule& rule, const toml::node& node) {
  const auto name = text_of(node);
  if (!name) return kAsSaid;
  const auto source = source_named(*name);
  if (!source) return fmt::format("nothing is called \"{}\"; known are{}", *name, sources_known());
  rule.on = *name;
  rule.source = *source;
  return {};
}

Wrong take_xids(Rule& rule, const toml::node& node) {
  const auto* list = node.as_array();
  auto* const events = std::get_if<EventSource>(&rule.source);
  if (list == nullptr || list->size() > kMostListed) return kAsSaid;
  if (events == nullptr || events->kind != EventKind::xid) {
    return "only a rule with on = \"xid\" has them";
  }
  std::vector<std::uint32_t> xids;
  for (const auto& element : *list) {
    const auto* number = element.as_integer();
    if (number == nullptr || number->get() < 0 || number->get() > 0xFFFF) return kAsSaid;
    xids.push_back(static_cast<std::uint32_t>(number->get()));
  }
  events->xids = std::move(xids);
  return {};
}

Wrong take_severity(Rule& rule, const toml::node& node) {
  const auto* number = node.as_integer();
  if (number == nullptr || number->get() < 0 || number->get() > 100) return kAsSaid;
  rule.severity = static_cast<int>(number->get());
  rule.curve = Curve::none;
  return {};
}

Wrong take_curve(Rule& rule, const toml::node& node) {
  const auto* name = node.as_string();
  const auto curve = name != nullptr ? enum_from_name<Curve>(name->get()) : std::nullopt;
  if (!curve) return kAsSaid;
  rule.curve = *curve;
  return {};
}

Wrong take_message(Rule& rule, const toml::node& node) {
  auto text = text_of(node);
  if (!text || text->empty()) return kAsSaid;
  if (const auto unknown = unknown_placeholder(*text)) {
    std::string known;
    for (const std::string_view one : kPlaceholders) known += fmt::format(" {{{}}}", one);
    return fmt::format("{{{}}} stands for nothing; known are{}", *unknown, known);
  }
  rule.message = *std::move(text);
  return {};
}

}  // namespace

// `on` first: what else a rule may say depends on it.
const std::vector<RuleKey>& rule_keys() {
  static const std::vector<RuleKey> keys = {
      {"on", "what is looked at", &take_on,
       "What is looked at: a signal, an event or a metric. A new rule needs it."},
      {"enabled", kYesOrNo, &take_flag<&Rule::enabled>, "false switches the rule off."},
      {"at", kNumber, &take_number<&Rule::at>, "Trips when this is reached. A new rule needs it."},
      {"below", kYesOrNo, &take_flag<&Rule::below>,
       "true: trips at or below `at`, instead of at or above."},
      {"clear_at", kNumber, &take_number<&Rule::clear_at>,
       "Clears beyond this; else as soon as `at` is not reached."},
      {"hold_s", kSeconds, &take_seconds<&Rule::hold>, "`at` has to stay reached for so long."},
      {"clear_hold_s", kSeconds, &take_seconds<&Rule::clear_hold>,
       "It has to stay clear for so long."},
      {"over_s", kSeconds, &take_seconds<&Rule::over>,
       "Of events: how many there were in so long. Of a metric: how much it grew in so long."},
      {"xids", "a list of at most 64 numbers from 0 to 65535", &take_xids,
       "Of on = \"xid\": these numbers; else those that no other rule names."},
      {"severity", "a whole number from 0 to 100", &take_severity,
       "How bad it is, whatever the value."},
      {"curve", "\"none\", \"thermal\", \"memory\", \"power\" or \"idle\"", &take_curve,
       "How bad it is by the value, instead of `severity`."},
      {"gpus", kTexts, &take_texts<&Rule::gpus>,
       "Only these GPUs, by index, UUID or PCI address; else all."},
      {"inhibits", kTexts, &take_texts<&Rule::inhibits>,
       "Rules that say nothing new of the GPU while this one fires; \"*\" is all of them."},
      {"notify", kYesOrNo, &take_flag<&Rule::notify>,
       "false: no sink hears of it; `command` is run all the same."},
      {"sinks", kTexts, &take_texts<&Rule::sinks>,
       "These sinks hear of it, whatever its level; else all that want its level."},
      {"quarantine", kYesOrNo, &take_flag<&Rule::quarantine>,
       "true: its GPU is handed out to nobody meanwhile."},
      {"cap_w", "a number of watts", &take_number<&Rule::cap_w>,
       "A power limit for its GPU meanwhile."},
      {"command", kTexts, &take_texts<&Rule::command>,
       "A program and its arguments, no shell: run when it begins, and when it is over."},
      {"message", kText, &take_message,
       "What is said; words in braces are filled in. A new rule needs it."},
      {"advice", kText, &take_text<&Rule::advice>, "What to do about it, in one plain sentence."},
  };
  return keys;
}

std::optional<Source> source_named(std::string_view name) {
  for (const SignalRow& row : signals()) {
    if (row.name == name) return row.signal;
  }
  if (name != "events_lost") {
    if (const auto kind = enum_from_name<EventKind>(name)) return EventSource{*kind, {}};
  }
  for (const Row& row : catalog()) {
    const bool measured =
        row.subject == Subject::device && row.kind != Kind::text && row.kind != Kind::flags;
    if (!measured || json_key(row) != name) continue;
    return MetricSource{row.metric, static_cast<double>(unit_info(row.unit).json_divisor)};
  }
  return std::nullopt;
}

std::string sources_known() {
  std::string known;
  for (const SignalRow& row : signals()) known += fmt::format(" {}", row.name);
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<EventKind>>([&](auto kind) {
    if (kind.value != EventKind::events_lost) known += fmt::format(" {}", kind.name);
  });
  return known + ", and the keys of docs/metrics.md";
}

std::string fault_of(const Rule& rule) {
  if (rule.on.empty()) return "it does not say what it looks at: on = \"temperature_c\", say";
  if (rule.message.empty()) return "it has no message";
  const bool on_events = std::holds_alternative<EventSource>(rule.source);
  const bool on_signal = std::holds_alternative<Signal>(rule.source);
  if (on_events && !rule.over) return "a rule on events has over_s: how long each counts";
  if (rule.over && (on_signal || *rule.over <= Duration::zero())) {
    return "over_s is for events and metrics, and more than 0";
  }
  if (rule.clear_at && (rule.below ? *rule.clear_at < rule.at : *rule.clear_at > rule.at)) {
    return "clear_at is on the wrong side of at: it would be clear while it is reached";
  }
  if (rule.of_node() && (rule.quarantine || rule.cap_w || !rule.gpus.empty())) {
    return "it is about the machine: it has no GPU to quarantine, cap or choose";
  }
  if (rule.cap_w && (*rule.cap_w <= 0 || *rule.cap_w > kMostWatts)) {
    return "cap_w is more than 0, and at most 100000";
  }
  if (on_events && (rule.below || rule.at < 1 || rule.at > 1.0 * Occurrences::kMost)) {
    return "a rule on events trips at 1 to 1024 of them";
  }
  if (!rule.command.empty() && rule.command.front().empty()) return "command names no program";
  return {};
}

}  // namespace gpuyard::andon
