#include "sim/time_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "sim/physics.h"

namespace gpuyard::sim {
namespace {

struct Unit {
  std::string_view name;
  double milliseconds;
};

constexpr std::array kUnits{Unit{"", 1'000.0}, Unit{"ms", 1.0}, Unit{"s", 1'000.0},
                            Unit{"m", 60'000.0}, Unit{"h", 3'600'000.0}};

}  // namespace

Result<std::chrono::milliseconds> parse_time(std::string_view text) {
  double number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto unit = text.substr(static_cast<std::size_t>(parsed.ptr - text.data()));
  const auto known = std::find_if(kUnits.begin(), kUnits.end(),
                                  [&](const Unit& each) { return each.name == unit; });
  const double longest = std::chrono::duration<double, std::milli>(kLongestTime).count();
  const double ms = known != kUnits.end() ? number * known->milliseconds : -1.0;
  if (parsed.ec != std::errc{} || !(ms >= 0.0 && ms <= longest)) {
    return Error{
        Errc::invalid,
        fmt::format("\"{}\" is no time such as 500ms, 10s, 2m or 1h, of at most 168h", text)};
  }
  const std::chrono::milliseconds time(std::llround(ms));
  if (time % kStep != time.zero()) {
    return Error{Errc::invalid, fmt::format("\"{}\": a world moves by {} ms; say a multiple", text,
                                            kStep.count())};
  }
  return time;
}

}  // namespace gpuyard::sim
