#include "daemon/config/control_keys.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace gpuyard::config {
namespace {

using OnStop = Config::Control::OnStop;

constexpr std::int64_t kLongestReset = Config::Control::kLongestReset;

constexpr std::array<std::string_view, 3> kGpuNames = {"{index}", "{uuid}", "{pci}"};

// A word in braces that would reach the command as it is, so that it resets nothing or another GPU.
Result<void> check_word(std::string_view word) {
  for (std::size_t open = word.find('{'); open != word.npos; open = word.find('{', open + 1)) {
    const std::size_t close = word.find('}', open);
    const std::string_view name = word.substr(open, close == word.npos ? close : close - open + 1);
    if (std::ranges::find(kGpuNames, name) != kGpuNames.end()) continue;
    return Error{
        Errc::invalid,
        fmt::format("\"{}\" stands for nothing; {{index}}, {{uuid}} and {{pci}} do", name)};
  }
  return {};
}

}  // namespace

Value get_on_stop(const Config& config) {
  return std::string(config.control.on_stop == OnStop::keep ? "keep" : "restore");
}

Result<void> set_on_stop(Config& config, const Value& value) {
  const auto& text = std::get<std::string>(value);
  if (text != "keep" && text != "restore") {
    return Error{Errc::invalid, fmt::format("can be \"keep\" or \"restore\", not \"{}\"", text)};
  }
  config.control.on_stop = text == "keep" ? OnStop::keep : OnStop::restore;
  return {};
}

Result<void> set_reset_command(Config& config, const Value& value) {
  const auto& words = std::get<std::vector<std::string>>(value);
  if (!words.empty() && words.front().empty()) {
    return Error{Errc::invalid, "its first word, the program, is empty"};
  }
  for (const std::string& word : words) {
    if (auto known = check_word(word); !known) return known;
  }
  config.control.reset_command = words;
  return {};
}

Result<void> set_reset_timeout(Config& config, const Value& value) {
  const auto seconds = std::get<std::int64_t>(value);
  if (seconds < 1 || seconds > kLongestReset) {
    return Error{Errc::invalid, fmt::format("can be 1 to {}, not {}", kLongestReset, seconds)};
  }
  config.control.reset_timeout_s = seconds;
  return {};
}

}  // namespace gpuyard::config
