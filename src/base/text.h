// Text: letters of protocols, which are ASCII whatever the locale says; numbers; UTF-8; and the
// words of strangers.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuyard {

constexpr char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Bytes that are no ASCII letter stay as they are.
inline std::string to_lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return to_lower(c); });
  return out;
}

constexpr bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return to_lower(x) == to_lower(y); });
}

inline std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r\n") {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// What comes before the separator, which is taken away with it; all, if there is none.
inline std::string_view take_until(char separator, std::string_view& rest) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return taken;
}

// The number with which a text begins, which is taken away; nothing if there is none or it does not
// fit. A double may be "inf" and "nan".
template <class Number>
std::optional<Number> take_number(std::string_view& text) {
  Number number{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
  return number;
}

// The same of a text that is a number and nothing else.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  const auto number = take_number<Number>(text);
  return text.empty() ? number : std::nullopt;
}

// What is valid UTF-8, for text that comes from drivers and strangers.

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// Bytes of the well-formed sequence (Unicode 15, table 3-7) that starts `text`; 0 if none does.
constexpr std::size_t utf8_sequence_length(std::string_view text) {
  const auto at = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto within = [&](std::size_t i, unsigned low, unsigned high) {
    return at(i) >= low && at(i) <= high;
  };
  const unsigned lead = at(0);
  if (text.empty()) return 0;
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return within(1, 0x80, 0xBF) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const unsigned low = lead == 0xE0 ? 0xA0U : 0x80U;   // no overlong forms
    const unsigned high = lead == 0xED ? 0x9FU : 0xBFU;  // no surrogates
    return within(1, low, high) && within(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90U : 0x80U;
    const unsigned high = lead == 0xF4 ? 0x8FU : 0xBFU;
    return within(1, low, high) && within(2, 0x80, 0xBF) && within(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

// Of one well-formed sequence.
constexpr std::uint32_t utf8_code_point(std::string_view sequence) {
  constexpr std::array<std::uint32_t, 5> kLeadBits = {0, 0x7F, 0x1F, 0x0F, 0x07};
  std::uint32_t code = static_cast<unsigned char>(sequence.front()) & kLeadBits[sequence.size()];
  for (const char c : sequence.substr(1)) {
    code = (code << 6U) | (static_cast<unsigned char>(c) & 0x3FU);
  }
  return code;
}

// The words of strangers where people read them: on a terminal, in the log.

// With a '?' in the place of each control character, also those of two bytes (C1), of what turns
// the direction of writing or breaks a line unseen, and of each byte that is no UTF-8: an escape
// sequence in the name of a process must not reach a terminal, nor a line end the log.
std::string printable(std::string_view text);

// The word that somebody may have meant.

// Of the candidates the one with the fewest letters to change, if they are few; else empty.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace gpuyard
