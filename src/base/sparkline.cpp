#include "gpuyard/sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

namespace gpuyard {
namespace {

constexpr std::array<std::string_view, 8> kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<double, 8> kLowerBounds = {0, 13, 25, 50, 63, 78, 85, 90};

template <class Height>
std::string line(std::span<const double> values, Height height) {
  std::string out;
  for (const double value : values) {
    out += std::isnan(value) ? std::string_view(" ") : kBars[height(value)];
  }
  return out;
}

}  // namespace

std::string v0::sparkline(std::span<const double> percentages) {
  return line(percentages, [](double percent) -> std::size_t {
    const auto above = std::ranges::upper_bound(kLowerBounds, percent);
    const auto reached = above - kLowerBounds.begin();
    return reached > 0 ? static_cast<std::size_t>(reached - 1) : 0;
  });
}

std::string v0::sparkline(std::span<const double> values, double max) {
  return line(values, [&](double value) -> std::size_t {
    if (!(max > 0)) return 0;
    // Clamped before it is an integer: it may be infinite.
    const double height = std::clamp(value / max * kBars.size(), 0.0, kBars.size() - 1.0);
    return static_cast<std::size_t>(height);
  });
}

}  // namespace gpuyard
