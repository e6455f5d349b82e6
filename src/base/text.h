// Text: protocol words, which are ASCII whatever the locale; numbers; UTF-8; and untrusted text.
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

constexpr char to_upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_letter(char c) {
  return to_lower(c) >= 'a' && to_lower(c) <= 'z';
}
constexpr bool is_alphanumeric(char c) {
  return is_letter(c) || is_digit(c);
}

// Leaves bytes that are no ASCII letter unchanged.
inline std::string to_lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return to_lower(c); });
  return out;
}

constexpr bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return to_lower(x) == to_lower(y); });
}

inline std::string_view trim(std::string_view text, std::string_view blanks = " \t\r\n") {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// Takes the prefix from `text`; returns whether it was there.
inline bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Takes the text before the separator, and the separator, from `rest` and returns the text; takes
// all of it if there is no separator.
inline std::string_view take_until(char separator, std::string_view& rest) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return taken;
}

// Takes the number at the start of `text`, and returns it; nothing if there is no number or it does
// not fit. A double may be "inf" or "nan".
template <class Number>
std::optional<Number> take_number(std::string_view& text) {
  Number number{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
  return number;
}

// Returns the number if the text is a number and nothing else.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  const auto number = take_number<Number>(text);
  return text.empty() ? number : std::nullopt;
}

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// Returns the length in bytes of the well-formed sequence (Unicode 15, table 3-7) at the start of
// `text`; 0 if there is none.
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

// Returns the code point of one well-formed sequence.
constexpr std::uint32_t utf8_code_point(std::string_view sequence) {
  constexpr std::array<std::uint32_t, 5> kLeadBits = {0, 0x7F, 0x1F, 0x0F, 0x07};
  std::uint32_t code = static_cast<unsigned char>(sequence.front()) & kLeadBits[sequence.size()];
  for (const char c : sequence.substr(1)) {
    code = (code << 6U) | (static_cast<unsigned char>(c) & 0x3FU);
  }
  return code;
}

// Puts a '?' in the place of each control character (also C1, of two bytes), each character that
// changes the direction of writing or breaks a line unseen, and each byte that is not UTF-8. An
// escape sequence in a process's name must not reach a terminal, and a line end in it must not end
// a line of the log.
std::string printable(std::string_view text);

// Quotes a word for a shell: in single quotes, unless it needs none.
std::string quote_shell_word(std::string_view word);

// Returns `text` with every `what`, which is not empty, replaced by `with`; a replacement is not
// searched again.
std::string replace_all(std::string text, std::string_view what, std::string_view with);

// Returns "a, b or c".
template <class Words>
std::string join_with_or(const Words& words) {
  std::string text;
  std::size_t left = words.size();
  for (const auto& word : words) {
    text.append(word).append(left > 2 ? ", " : left == 2 ? " or " : "");
    --left;
  }
  return text;
}

// Returns the candidate with the fewest letters to change, at most two and a third of the word,
// else the first that begins with the word; empty if there is none.
std::string_view nearest_word(std::string_view word,
                              const std::vector<std::string_view>& candidates);

// Returns `unknown metric "powr" (did you mean "power"?)`; if no known word is near, `otherwise`
// replaces the question. Both words are printed behind `prefix`, which is not compared.
std::string unknown_word(std::string_view kind, std::string_view word,
                         const std::vector<std::string_view>& known,
                         std::string_view otherwise = {}, std::string_view prefix = {});

}  // namespace gpuyard
