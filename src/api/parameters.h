// Path and query parameters to a record, strictly: an unknown, repeated, missing or malformed one
// is an error that names it.
#pragma once

#include <charconv>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/record.h"
#include "base/result.h"

namespace gpuyard::api {

using NamedValues = std::vector<std::pair<std::string, std::string>>;

template <class T>
Result<void> read_parameter(const std::string& name, const std::string& text, T& to) {
  if constexpr (is_optional<T>) {
    return read_parameter(name, text, to.emplace());
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (text.empty()) return Error{Errc::invalid, "parameter " + name + " is empty"};
    to = text;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (text != "true" && text != "false") {
      return Error{Errc::invalid, "parameter " + name + " must be true or false"};
    }
    to = text == "true";
  } else if constexpr (DescribedEnum<T>) {
    const auto value = enum_from_name<T>(text);
    if (!value) return Error{Errc::invalid, "parameter " + name + " cannot be \"" + text + "\""};
    to = *value;
  } else {
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), to);
    bool usable = parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
    if constexpr (std::is_floating_point_v<T>) usable = usable && std::isfinite(to);  // not "nan"
    if (!usable) {
      return Error{Errc::invalid,
                   "parameter " + name + " must be a number in range, not \"" + text + "\""};
    }
  }
  return {};
}

template <Record T>
Result<T> read_parameters(const NamedValues& given) {
  T parameters{};
  std::size_t used = 0;
  Result<void> outcome;
  each_member<T>([&](auto member) {
    using Field = std::remove_reference_t<decltype(parameters.*member.pointer)>;
    std::size_t seen = 0;
    for (const auto& [name, text] : given) {
      if (name != member.name) continue;
      ++used;
      if (++seen > 1 && outcome)
        outcome = Error{Errc::invalid, "parameter " + name + " is repeated"};
      if (outcome) outcome = read_parameter(name, text, parameters.*member.pointer);
    }
    if (seen == 0 && !is_optional<Field> && outcome) {
      outcome = Error{Errc::invalid, std::string("parameter ") + member.name + " is missing"};
    }
  });
  if (!outcome) return outcome.error();
  if (used == given.size()) return parameters;
  for (const auto& entry : given) {
    bool known = false;
    each_member<T>([&](auto member) { known = known || entry.first == member.name; });
    if (!known) return Error{Errc::invalid, "unknown parameter \"" + entry.first + "\""};
  }
  return parameters;
}

}  // namespace gpuyard::api
