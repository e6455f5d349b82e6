#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <utility>

#include "gpuyard/sparkline.h"

namespace gpuyard {
namespace {

struct CodePoints {
  std::uint32_t first;
  std::uint32_t last;
};

// Unicode 15: controls (general category Cc), line and paragraph separators, and every character
// with the property Bidi_Control.
constexpr std::array kHidden = {CodePoints{0x00, 0x1F},     CodePoints{0x7F, 0x9F},
                                CodePoints{0x061C, 0x061C}, CodePoints{0x200E, 0x200F},
                                CodePoints{0x2028, 0x202E}, CodePoints{0x2066, 0x2069}};

bool is_shown(std::string_view sequence) {
  const std::uint32_t code = utf8_code_point(sequence);
  return std::ranges::none_of(
      kHidden, [&](const CodePoints& range) { return code >= range.first && code <= range.last; });
}

// Returns how many letters are to be inserted, removed, changed or swapped with the next, ignoring
// case.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const auto same = [&](std::size_t i, std::size_t j) {
    return to_lower(a[i - 1]) == to_lower(b[j - 1]);
  };
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::vector<std::size_t> row(b.size() + 1, i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same(i, j) ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && same(i, j - 1) && same(i - 1, j);
      if (swapped) row[j] = std::min(row[j], above[j - 2] + 1);
    }
    above = std::exchange(last, std::move(row));
  }
  return last.back();
}

constexpr std::array<std::string_view, 8> kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<double, 8> kLowerBounds = {0, 13, 25, 50, 63, 78, 85, 90};

template <class Height>
std::string render_sparkline(std::span<const double> values, Height height) {
  std::string out;
  for (const double value : values) {
    out += std::isnan(value) ? std::string_view(" ") : kBars[height(value)];
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    const std::string_view sequence = text.substr(0, std::max<std::size_t>(length, 1));
    if (length > 0 && is_shown(sequence)) {
      out += sequence;
    } else {
      out += '?';
    }
    text.remove_prefix(sequence.size());
  }
  return out;
}

std::string quote_shell_word(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+=:,@%/";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return std::string(word);
  const std::size_t value = word.starts_with("--") ? word.find('=') + 1 : 0;  // --reason='...'
  std::string quoted = std::string(word.substr(0, value)) + "'";
  for (const char c : word.substr(value)) c == '\'' ? quoted += "'\\''" : quoted += c;
  return quoted + "'";
}

std::string_view nearest_word(std::string_view word,
                              const std::vector<std::string_view>& candidates) {
  // With more changes, it would often be a word of another meaning.
  constexpr std::size_t kMaxChanges = 2;
  constexpr std::size_t kMinPrefix = 3;
  std::string_view best;
  std::size_t fewest = std::min(kMaxChanges, word.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const std::size_t changes = edit_distance(word, candidate);
    if (changes < fewest) {
      fewest = changes;
      best = candidate;
    }
  }
  if (!best.empty() || word.size() < kMinPrefix) return best;
  const auto begun = std::ranges::find_if(
      candidates, [&](std::string_view candidate) { return candidate.starts_with(word); });
  return begun != candidates.end() ? *begun : best;
}

std::string replace_all(std::string text, std::string_view what, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
  return text;
}

std::string unknown_word(std::string_view kind, std::string_view word,
                         const std::vector<std::string_view>& known, std::string_view otherwise,
                         std::string_view prefix) {
  const std::string_view near = nearest_word(word, known);
  return fmt::format("unknown {} \"{}{}\"{}", kind, prefix, word,
                     near.empty() ? std::string(otherwise)
                                  : fmt::format(" (did you mean \"{}{}\"?)", prefix, near));
}

std::string v0::sparkline(std::span<const double> percentages) {
  return render_sparkline(percentages, [](double percent) -> std::size_t {
    const auto above = std::ranges::upper_bound(kLowerBounds, percent);
    const auto reached = above - kLowerBounds.begin();
    return reached > 0 ? static_cast<std::size_t>(reached - 1) : 0;
  });
}

std::string v0::sparkline(std::span<const double> values, double max) {
  return render_sparkline(values, [&](double value) -> std::size_t {
    if (!(max > 0)) return 0;
    // Clamped before the conversion to an integer, because it may be infinite.
    const double height = std::clamp(value / max * kBars.size(), 0.0, kBars.size() - 1.0);
    return static_cast<std::size_t>(height);
  });
}

}  // namespace gpuyard
