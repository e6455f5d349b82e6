// Text that may be printed on a terminal. Text of another process, machine or file enters it only
// with its control characters replaced. Printing a plain string does not compile.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "base/text.h"

namespace gpuyard::cli {

class Printable;

template <class T>
inline constexpr bool is_joined = false;
template <class Iterator, class Sentinel>
inline constexpr bool is_joined<fmt::join_view<Iterator, Sentinel, char>> = true;

// Converts an argument of formatted().
template <class T>
auto printable_argument(const T& value) {
  if constexpr (std::is_same_v<T, Printable>) {
    return std::string_view(value);
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return printable(value);
  } else if constexpr (is_joined<T>) {
    return printable(fmt::format("{}", T(value)));
  } else {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, char>,
                  "text may hide in this type: format its parts");
    return value;
  }
}
template <class T>
using PrintableArgument = decltype(printable_argument(std::declval<const T&>()));

class Printable {
 public:
  Printable() = default;

  // The program's own text, a literal, with its line ends and colours.
  template <std::size_t N>
  Printable(const char (&words)[N]) : text_(words) {}
  template <std::size_t N>
  Printable(char (&)[N]) = delete;  // a buffer, which anything may have filled

  // Any other text, on one line: see gpuyard::printable().
  explicit Printable(std::string_view text) : text_(printable(text)) {}

  // The same for a text of several lines; its line ends are kept.
  static Printable lines(std::string_view text);

  // JSON with the same meaning, in which each hidden character is written as \u and four digits.
  static Printable json(std::string_view document);

  const std::string& str() const { return text_; }
  operator const std::string&() const { return text_; }
  operator std::string_view() const { return text_; }

  bool empty() const { return text_.empty(); }
  Printable& operator+=(const Printable& more) {
    text_ += more.text_;
    return *this;
  }
  friend Printable operator+(Printable text, const Printable& more) { return text += more; }
  template <std::convertible_to<std::string_view> Other>
  friend bool operator==(const Printable& text, const Other& other) {
    return std::string_view(text) == std::string_view(other);
  }

  // Splits at the line ends, which are left out.
  std::vector<Printable> split() const;

 private:
  template <class... Args>
  friend Printable formatted(fmt::format_string<PrintableArgument<Args>...> format,
                             const Args&... args);

  std::string text_;
};

// As fmt::format. The format may have line ends and colours; strings among the arguments cannot.
template <class... Args>
Printable formatted(fmt::format_string<PrintableArgument<Args>...> format, const Args&... args) {
  Printable made;
  made.text_ = fmt::format(format, printable_argument(args)...);
  return made;
}

template <class T>
Printable json_line(const T& value) {
  return Printable::json(json::to_json(value)) + "\n";
}

}  // namespace gpuyard::cli
