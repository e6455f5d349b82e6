// A command line as words, and the result of parsing it.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "cli/command_line.h"

namespace gpuyard::cli {

using Words = std::vector<const char*>;

inline std::variant<Verb, int> parse(Words words) {
  words.insert(words.begin(), "gpuyard");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

template <class T>
T verb_of(const Words& words) {
  const auto parsed = parse(words);
  const Verb* chosen = std::get_if<Verb>(&parsed);
  const T* wanted = chosen != nullptr ? std::get_if<T>(chosen) : nullptr;
  EXPECT_NE(wanted, nullptr) << "another verb, or none";
  return wanted != nullptr ? *wanted : T{};
}

// The exit code, or -1 if there is a verb to run, and what was printed.
struct ParseOutcome {
  int code = -1;
  std::string out;
  std::string err;
};
inline ParseOutcome end_of(const Words& words) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const auto parsed = parse(words);
  ParseOutcome ended;
  if (const int* code = std::get_if<int>(&parsed)) ended.code = *code;
  ended.out = testing::internal::GetCapturedStdout();
  ended.err = testing::internal::GetCapturedStderr();
  return ended;
}

// Splits as a shell does, up to a remark or what the shell does with the command's output.
inline std::vector<std::string> shell_words(std::string_view line) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (const char c : line) {
    const bool mark = quote == 0 && (c == '"' || c == '\'');
    if (quote == 0 && std::string_view("|;&>#").find(c) != std::string_view::npos && !in_word)
      break;
    if (quote == 0 && c == ' ') {
      in_word = false;
    } else {
      if (!in_word) words.emplace_back();
      in_word = true;
      if (mark) {
        quote = c;
      } else if (c == quote) {
        quote = 0;
      } else {
        words.back() += c;
      }
    }
  }
  return words;
}

}  // namespace gpuyard::cli
