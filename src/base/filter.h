// The filter by which people choose rows: `temp>80 & user==alice`, `(mem<10 | !util) & why~cap`, or
// a plain word. `gpuyard top`, `query --where` and the page (web/page/filter.js) share it, and
// tests/data/filters.json holds all of them to it. Knows no GPU.
//
//   filter = all {"|" all};  all = one {"&" one};  one = "!" one | "(" filter ")" | test
//   test   = word [("==" | "!=" | ">=" | "<=" | ">" | "<" | "~" | "!~") value]
//
// A word on its own is looked for in every field, in any case; a field on its own asks whether it
// is known and not 0. A comparison with a value that is not known is false, whichever way it goes.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace gpuyard {

// The value of one field of a row; monostate: it is not known.
using FilterValue = std::variant<std::monostate, double, std::string>;

class Filter {
 public:
  static constexpr std::size_t kMaxLength = 1000;  // bytes

  // Lets every row pass.
  Filter() = default;
  // Errc::invalid, "column 7: ...": the text is no filter of rows with these fields, or compares
  // one of `numbers` with another text. A text of blanks lets every row pass.
  static Result<Filter> parse(std::string_view text, std::span<const std::string_view> fields,
                              std::span<const std::string_view> numbers = {});

  // `row` has one value for each field, in the order of parse().
  bool matches(std::span<const FilterValue> row) const;
  bool empty() const { return steps_.empty(); }

 private:
  class Parser;
  enum class StepKind : std::uint8_t {
    compare,
    contains,
    lacks,
    present,
    anywhere,
    negate,
    both,
    any
  };
  // In the order in which they are carried out: a step takes the results of those before it.
  struct Step {
    StepKind kind{};
    bool (*holds)(std::partial_ordering) = nullptr;  // of a comparison
    std::size_t field = 0;
    std::string word = {};
  };

  static bool test(const Step&, std::span<const FilterValue> row);

  std::vector<Step> steps_;
};

}  // namespace gpuyard
