#include "base/filter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "base/try.h"

namespace gpuyard {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kNonWordCharacters = " \t\r\n&|()!<>=~\"";
constexpr std::array<std::string_view, 13> kSigns = {"==", "!=", ">=", "<=", "!~", "<", ">",
                                                     "~",  "&",  "|",  "(",  ")",  "!"};

struct Order {
  std::string_view sign;
  bool (*holds)(std::partial_ordering);
};

constexpr std::array kOrders = {Order{"==", std::is_eq},   Order{"!=", std::is_neq},
                                Order{">=", std::is_gteq}, Order{"<=", std::is_lteq},
                                Order{">", std::is_gt},    Order{"<", std::is_lt}};

struct Token {
  std::string_view sign;  // empty: a word, or the end
  std::string_view word;
  bool is_word = false;
  std::size_t column = 1;  // of its first character, from 1
};

std::size_t column_of(std::string_view text, std::size_t byte) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; };
  return 1 + static_cast<std::size_t>(std::ranges::count_if(text.substr(0, byte), begins));
}

Error filter_error(std::size_t column, std::string_view what) {
  return {Errc::invalid, fmt::format("column {}: {}", column, what)};
}

Result<std::vector<Token>> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  for (std::size_t at = 0;;) {
    at = text.find_first_not_of(kBlanks, at);
    if (at == text.npos) break;
    const std::string_view rest = text.substr(at);
    const std::size_t column = column_of(text, at);
    const auto* const sign =
        std::ranges::find_if(kSigns, [&](std::string_view one) { return rest.starts_with(one); });
    if (sign != kSigns.end()) {
      tokens.push_back({*sign, {}, false, column});
      at += sign->size();
      continue;
    }
    const std::size_t closed = rest.front() == '"' ? rest.find('"', 1) : rest.npos;
    if (closed != rest.npos) {
      tokens.push_back({{}, rest.substr(1, closed - 1), true, column});
      at += closed + 1;
      continue;
    }
    const std::string_view word = rest.substr(0, rest.find_first_of(kNonWordCharacters));
    if (word.empty()) return filter_error(column, fmt::format("unexpected \"{}\"", rest.front()));
    tokens.push_back({{}, word, true, column});
    at += word.size();
  }
  tokens.push_back({"end", {}, false, column_of(text, text.size())});
  return tokens;
}

std::string text_of(const FilterValue& value) {
  if (const double* const number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* const text = std::get_if<std::string>(&value)) return to_lower(*text);
  return {};
}

bool is_known(const FilterValue& value) {
  return !std::holds_alternative<std::monostate>(value);
}

bool contains(const FilterValue& value, std::string_view word) {
  return is_known(value) && text_of(value).find(word) != std::string::npos;
}

bool is_present(const FilterValue& value) {
  const double* const number = std::get_if<double>(&value);
  return number != nullptr ? *number != 0 : is_known(value) && !text_of(value).empty();
}

}  // namespace

class Filter::Parser {
 public:
  Parser(std::vector<Token> tokens, std::span<const std::string_view> fields,
         std::span<const std::string_view> numbers)
      : tokens_(std::move(tokens)), fields_(fields), numbers_(numbers) {}

  Result<std::vector<Step>> parse_whole() {
    GPUYARD_TRY(parse_any());
    if (current().sign != "end") return filter_error(current().column, "missing \"&\" or \"|\"");
    return std::move(steps_);
  }

 private:
  const Token& current() const { return tokens_[next_]; }
  bool accept(std::string_view sign) {
    const bool there = current().sign == sign;
    next_ += there ? 1 : 0;
    return there;
  }

  Result<void> parse_any() {
    return parse_chain("|", StepKind::any, [this] { return parse_all(); });
  }
  Result<void> parse_all() {
    return parse_chain("&", StepKind::both, [this] { return parse_one(); });
  }
  template <class Part>
  Result<void> parse_chain(std::string_view sign, StepKind joined, Part part) {
    GPUYARD_TRY(part());
    while (accept(sign)) {
      GPUYARD_TRY(part());
      steps_.push_back({joined});
    }
    return {};
  }

  Result<void> parse_one() {
    if (accept("!")) {
      auto done = parse_one();
      steps_.push_back({StepKind::negate});
      return done;
    }
    if (accept("(")) {
      GPUYARD_TRY(parse_any());
      if (!accept(")")) return filter_error(current().column, "missing \")\"");
      return {};
    }
    return parse_test();
  }

  Result<void> parse_test() {
    const Token word = current();
    if (!word.is_word) {
      return filter_error(word.column, word.sign == "end"
                                           ? "the filter ends too early"
                                           : fmt::format("nothing before \"{}\"", word.sign));
    }
    ++next_;
    const auto found = std::ranges::find(fields_, word.word);
    const auto field = static_cast<std::size_t>(found - fields_.begin());
    Step step{StepKind::compare, {}, field, to_lower(word.word)};
    if (!parse_comparison(step)) {
      step.kind = found != fields_.end() ? StepKind::present : StepKind::anywhere;
      steps_.push_back(std::move(step));
      return {};
    }
    if (found == fields_.end()) {
      return filter_error(word.column,
                          unknown_word("field", word.word, {fields_.begin(), fields_.end()},
                                       fmt::format("; fields are {}", fmt::join(fields_, ", "))));
    }
    const std::string_view sign = current().sign;
    ++next_;
    if (!current().is_word)
      return filter_error(current().column, fmt::format("\"{}\" needs a value", sign));
    const bool number =
        step.kind == StepKind::compare && std::ranges::count(numbers_, word.word) > 0;
    if (number && !parse_number<double>(current().word)) {
      return filter_error(current().column,
                          fmt::format("expected a number such as 80; got \"{}\"", current().word));
    }
    step.word = to_lower(current().word);
    ++next_;
    steps_.push_back(std::move(step));
    return {};
  }

  // Sets the comparison that follows in `step`; returns false if none follows.
  bool parse_comparison(Step& step) const {
    const std::string_view sign = current().sign;
    if (sign == "~" || sign == "!~") {
      step.kind = sign == "~" ? StepKind::contains : StepKind::lacks;
      return true;
    }
    const auto* const order = std::ranges::find(kOrders, sign, &Order::sign);
    if (order == kOrders.end()) return false;
    step.holds = order->holds;
    return true;
  }

  std::vector<Token> tokens_;
  std::span<const std::string_view> fields_;
  std::span<const std::string_view> numbers_;
  std::size_t next_ = 0;
  std::vector<Step> steps_;
};

Result<Filter> Filter::parse(std::string_view text, std::span<const std::string_view> fields,
                             std::span<const std::string_view> numbers) {
  if (text.size() > kMaxLength) {
    return Error{Errc::invalid, fmt::format("a filter must be at most {} bytes", kMaxLength)};
  }
  if (trim(text).empty()) return Filter();
  auto tokens = GPUYARD_TRY(tokens_of(text));
  auto steps = GPUYARD_TRY(Parser(std::move(tokens), fields, numbers).parse_whole());
  Filter filter;
  filter.steps_ = std::move(steps);
  return filter;
}

bool Filter::test(const Step& step, std::span<const FilterValue> row) {
  if (step.kind == StepKind::anywhere) {
    return std::ranges::any_of(row, [&](const auto& value) { return contains(value, step.word); });
  }
  const FilterValue& value = row[step.field];
  if (step.kind == StepKind::contains) return contains(value, step.word);
  if (step.kind == StepKind::lacks) return is_known(value) && !contains(value, step.word);
  if (step.kind == StepKind::present) return is_present(value);
  if (!is_known(value)) return false;
  if (const double* const number = std::get_if<double>(&value)) {
    const auto wanted = parse_number<double>(step.word);
    return wanted && std::isfinite(*wanted) && step.holds(*number <=> *wanted);
  }
  return step.holds(text_of(value) <=> step.word);
}

bool Filter::matches(std::span<const FilterValue> row) const {
  std::vector<bool> results;
  const auto take = [&] {
    const bool last = results.back();
    results.pop_back();
    return last;
  };
  for (const Step& step : steps_) {
    if (step.kind == StepKind::negate) {
      results.back() = !results.back();
    } else if (step.kind == StepKind::both || step.kind == StepKind::any) {
      const bool second = take();
      const bool first = take();
      results.push_back(step.kind == StepKind::both ? first && second : first || second);
    } else {
      results.push_back(test(step, row));
    }
  }
  return results.empty() || results.back();
}

}  // namespace gpuyard
