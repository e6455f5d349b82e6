#include "base/toml_reader.h"

#include <fmt/format.h>

namespace gpuyard {

Error error_at(const std::string& file, const toml::source_region& where, std::string_view what) {
  return {Errc::invalid, fmt::format("{}:{}: {}", file, where.begin.line, what)};
}

Result<toml::table> parse_toml(std::string_view text, const std::string& file) {
  toml::parse_result parsed = toml::parse(text, file);
  if (!parsed) return error_at(file, parsed.error().source(), parsed.error().description());
  return std::move(parsed).table();
}

template <>
std::optional<std::vector<std::string>> toml_as(const toml::node& node) {
  const auto* const list = node.as_array();
  if (list == nullptr) return std::nullopt;
  std::vector<std::string> texts;
  for (const auto& element : *list) {
    auto text = toml_as<std::string>(element);
    if (!text) return std::nullopt;
    texts.push_back(*std::move(text));
  }
  return texts;
}

}  // namespace gpuyard
