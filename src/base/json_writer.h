// Records to JSON text, without a document tree in between. Integers and doubles are written with
// to_chars, so that no locale can change them; NaN and infinities become null.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include "base/record.h"

namespace gpuyard::json {

// Appends `text` as a JSON string. Control characters are escaped; bytes that are not UTF-8 become
// U+FFFD, because names come from drivers and strangers.
void put_string(std::string& out, std::string_view text);
void put_double(std::string& out, double value);

template <class T>
void put(std::string& out, const T& value);

// ,"name":  with the name known at compile time.
template <class Member>
inline constexpr auto key = [] {
  constexpr std::size_t length = std::char_traits<char>::length(Member::name);
  std::array<char, length + 4> text{};
  text[0] = ',';
  text[1] = '"';
  for (std::size_t i = 0; i < length; ++i) text[i + 2] = Member::name[i];
  text[length + 2] = '"';
  text[length + 3] = ':';
  return text;
}();

// A type that writes itself: `void put_json(std::string&, const T&)`, found by its namespace.
template <class T>
concept WritesItself = requires(std::string& out, const T& value) { put_json(out, value); };

template <Record T>
void put_record(std::string& out, const T& value) {
  const std::size_t start = out.size();
  each_member<T>([&](auto member) {
    constexpr auto& text = key<decltype(member)>;
    out.append(text.data(), text.size());
    put(out, value.*member.pointer);
  });
  if (out.size() == start) out += ',';
  out[start] = '{';  // the first comma becomes the brace
  out += '}';
}

template <class Sequence>
void put_sequence(std::string& out, const Sequence& values) {
  out += '[';
  bool first = true;
  for (const auto& value : values) {
    if (!std::exchange(first, false)) out += ',';
    put(out, value);
  }
  out += ']';
}

template <class T>
void put_map(std::string& out, const std::map<std::string, T>& values) {
  out += '{';
  bool first = true;
  for (const auto& [name, value] : values) {
    if (!std::exchange(first, false)) out += ',';
    put_string(out, name);
    out += ':';
    put(out, value);
  }
  out += '}';
}

template <class T>
void put(std::string& out, const T& value) {
  if constexpr (WritesItself<T>) {
    put_json(out, value);
  } else if constexpr (std::is_same_v<T, bool>) {
    out += value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    out.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
  } else if constexpr (std::is_floating_point_v<T>) {
    put_double(out, value);
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    put_string(out, value);
  } else if constexpr (DescribedEnum<T>) {
    put_string(out, enum_name(value));
  } else if constexpr (is_optional<T>) {
    if (value) {
      put(out, *value);
    } else {
      out += "null";
    }
  } else if constexpr (is_string_map<T>) {
    put_map(out, value);
  } else if constexpr (Record<T>) {
    put_record(out, value);
  } else {
    put_sequence(out, value);
  }
}

template <class T>
std::string to_json(const T& value) {
  std::string out;
  put(out, value);
  return out;
}

}  // namespace gpuyard::json
