// From the text of a file to the sinks in it.
#include <algorithm>

#include <fmt/format.h>

#include "base/third_party/toml.h"
#include "notify/sink_config.h"
#include "notify/sink_keys.h"

namespace gpuyard::notify {
namespace {

constexpr std::size_t kLongestName = 32;

bool is_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !text.empty() && text.size() <= kLongestName && std::ranges::all_of(text, fits);
}

class SinkReader {
 public:
  explicit SinkReader(const std::string& file) : file_(file) {}

  Result<std::vector<SinkConfig>> read(const toml::table& document) {
    for (const auto& [name, node] : document) {
      if (name == "rule") continue;
      const auto* tables = node.as_table();
      if (name != "sink" || tables == nullptr) {
        return at(name.source(), fmt::format("\"{}\" is not known here; there are tables "
                                             "[rule.NAME] and [sink.NAME]",
                                             name.str()));
      }
      if (auto done = read_tables(*tables); !done) return std::move(done).error();
    }
    return std::move(sinks_);
  }

  Error at(const toml::source_region& where, const std::string& what) const {
    return {Errc::invalid, fmt::format("{}:{}: {}", file_, where.begin.line, what)};
  }

 private:
  Result<void> read_tables(const toml::table& tables) {
    for (const auto& [name, node] : tables) {
      const auto* table = node.as_table();
      if (table == nullptr || !is_name(name.str())) {
        return at(name.source(), fmt::format("a sink is a table [sink.NAME], its name of up to {} "
                                             "letters, digits, '_' and '-'",
                                             kLongestName));
      }
      if (sinks_.size() == kMostSinks) {
        return at(name.source(), fmt::format("there are more than {} sinks; let one of them pass "
                                             "alerts on",
                                             kMostSinks));
      }
      auto sink = read_sink(std::string(name.str()), name.source(), *table);
      if (!sink) return std::move(sink).error();
      sinks_.push_back(*std::move(sink));
    }
    return {};
  }

  // `kind` first: it says which other keys there are.
  Result<SinkConfig> read_sink(const std::string& name, const toml::source_region& where,
                               const toml::table& table) {
    SinkDraft draft;
    draft.sink.name = name;
    const auto kind = table.find("kind");
    if (kind == table.end()) return at(where, fmt::format("sink.{} has no kind", name));
    if (auto done = read_key(draft, "kind", kind->second, kind->first.source()); !done) {
      return std::move(done).error();
    }
    for (const auto& [key, node] : table) {
      if (key == "kind") continue;
      if (auto done = read_key(draft, key.str(), node, key.source()); !done) {
        return std::move(done).error();
      }
    }
    auto sink = finished(std::move(draft));
    if (!sink) return at(where, fmt::format("sink.{}: {}", name, sink.error().message));
    return sink;
  }

  Result<void> read_key(SinkDraft& draft, std::string_view name, const toml::node& node,
                        const toml::source_region& where) {
    const auto keys = sink_keys();
    const auto key = std::ranges::find(keys, name, &SinkKey::name);
    const std::string full = fmt::format("sink.{}.{}", draft.sink.name, name);
    if (key == keys.end()) return at(where, fmt::format("unknown key \"{}\"; {}", full, known()));
    const auto& kinds = key->kinds;
    if (!kinds.empty() && std::ranges::find(kinds, draft.sink.kind) == kinds.end()) {
      return at(where, fmt::format("\"{}\" is not for a sink of kind {}; take it out", full,
                                   enum_name(draft.sink.kind)));
    }
    const auto value = value_of(node, key->type);
    if (!value) return at(where, fmt::format("{} must be {}", full, what_is(key->type)));
    auto done = key->set(draft, *value);
    if (!done) return at(where, fmt::format("{}: {}", full, done.error().message));
    return {};
  }

  static std::string known() {
    std::string names = "known are";
    for (const SinkKey& key : sink_keys()) names += fmt::format(" {}", key.name);
    return names;
  }

  static std::string_view what_is(SinkKey::Type type) {
    if (type == SinkKey::Type::text) return "a string";
    return type == SinkKey::Type::list ? "a list of strings" : "an integer";
  }

  static std::optional<SinkValue> value_of(const toml::node& node, SinkKey::Type type) {
    if (type == SinkKey::Type::list) return list_of(node);
    if (type == SinkKey::Type::text) {
      const auto* text = node.as_string();
      return text != nullptr ? std::optional<SinkValue>(text->get()) : std::nullopt;
    }
    const auto* number = node.as_integer();
    return number != nullptr ? std::optional<SinkValue>(number->get()) : std::nullopt;
  }

  static std::optional<SinkValue> list_of(const toml::node& node) {
    const auto* array = node.as_array();
    if (array == nullptr) return std::nullopt;
    std::vector<std::string> words;
    for (const auto& element : *array) {
      const auto* word = element.as_string();
      if (word == nullptr) return std::nullopt;
      words.push_back(word->get());
    }
    return words;
  }

  const std::string& file_;
  std::vector<SinkConfig> sinks_;
};

}  // namespace

Result<std::vector<SinkConfig>> read_sinks(std::string_view toml, const std::string& file) {
  const toml::parse_result parsed = toml::parse(toml, file);
  SinkReader reader(file);
  if (!parsed) {
    return reader.at(parsed.error().source(), std::string(parsed.error().description()));
  }
  return reader.read(parsed.table());
}

}  // namespace gpuyard::notify
