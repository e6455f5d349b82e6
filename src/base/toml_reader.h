// Shared by the readers of TOML files: values by their type, and errors that name the file and the
// line.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <boost/mp11/algorithm.hpp>

#include "base/result.h"
#include "base/third_party/toml.h"

namespace gpuyard {

// Errc::invalid: "FILE:LINE: what".
Error toml_error(const std::string& file, const toml::source_region&, std::string_view what);

Result<toml::table> parse_toml(std::string_view text, const std::string& file);

// Returns nothing if the node has another type.
template <class T>
std::optional<T> toml_as(const toml::node& node) {
  const auto* const value = node.as<T>();
  return value != nullptr ? std::optional<T>(value->get()) : std::nullopt;
}
template <>
std::optional<std::vector<std::string>> toml_as(const toml::node&);
// A whole number is a number too.
template <>
inline std::optional<double> toml_as(const toml::node& node) {
  if (const auto* const whole = node.as_integer()) return static_cast<double>(whole->get());
  const auto* const value = node.as_floating_point();
  return value != nullptr ? std::optional(value->get()) : std::nullopt;
}

// Returns the value of a key whose type is alternative `type` of Value.
template <class Value>
std::optional<Value> toml_value(const toml::node& node, std::size_t type) {
  return boost::mp11::mp_with_index<std::variant_size_v<Value>>(
      type, [&](auto index) -> std::optional<Value> {
        return toml_as<std::variant_alternative_t<index, Value>>(node);
      });
}

// Returns a value for a message: "loud", 5, ["a"]; "a list", "a table" or "a time" if it is long or
// has no short form.
std::string toml_text(const toml::node&);

// Names each type in an error, in the order of Value's alternatives.
inline constexpr std::array<std::string_view, 5> kTomlTypes = {
    "a string", "a list of strings", "an integer", "true or false", "a number"};

}  // namespace gpuyard
