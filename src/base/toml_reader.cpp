#include "base/toml_reader.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"

namespace gpuyard {
namespace {

// Returns where a table that the parser refuses as a second one begins: an example that is pasted
// below the package's file, which has all tables, repeats one. Empty for any other error.
std::string first_table(std::string_view text, const toml::parse_error& error) {
  if (error.description().find("cannot redefine existing table") == std::string_view::npos) {
    return "";
  }
  std::vector<std::string_view> lines = {""};  // the parser counts from 1
  while (lines.size() <= error.source().begin.line && !text.empty()) {
    lines.push_back(trim(take_until('\n', text)));
  }
  const std::string_view header = lines.back().substr(0, lines.back().find(']') + 1);
  const auto first =
      std::ranges::find_if(lines, [&](std::string_view line) { return line.starts_with(header); });
  const auto number = first - lines.begin();
  if (header.empty() || number + 1 == std::ssize(lines)) return "";
  return fmt::format(", which begins at line {}; put these keys there", number);
}

}  // namespace

Error toml_error(const std::string& file, const toml::source_region& where, std::string_view what) {
  return {Errc::invalid, fmt::format("{}:{}: {}", file, where.begin.line, what)};
}

std::string toml_text(const toml::node& node) {
  constexpr std::size_t kMaxTextBytes = 100;
  if (const auto* const text = node.as_string()) {
    return fmt::format("\"{}\"", printable(text->get().substr(0, kMaxTextBytes)));
  }
  if (const auto* const whole = node.as_integer()) return fmt::format("{}", whole->get());
  if (const auto* const real = node.as_floating_point()) return fmt::format("{:#}", real->get());
  if (const auto* const yes = node.as_boolean()) return yes->get() ? "true" : "false";
  if (const auto* const list = node.as_array()) {
    std::string all = "[";
    for (const toml::node& one : *list) {
      if (all.size() > kMaxTextBytes) return "a list";
      all += fmt::format("{}{}", all.size() > 1 ? ", " : "", toml_text(one));
    }
    return all + "]";
  }
  return node.is_table() ? "a table" : "a time";
}

Result<toml::table> parse_toml(std::string_view text, const std::string& file) {
  toml::parse_result parsed = toml::parse(text, file);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return toml_error(file, error.source(),
                      std::string(error.description()) + first_table(text, error));
  }
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
