#include "base/boot.h"

#include <charconv>

#include <fmt/format.h>

#include "base/files.h"

namespace gpuyard {

std::string boot_id() {
  auto text = read_file("/proc/sys/kernel/random/boot_id", 64);
  if (!text) return "";
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return *std::move(text);
}

std::optional<std::uint64_t> process_start_time(pid_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/stat", pid), 4096);
  if (!text) return std::nullopt;
  const auto stat = parse_process_stat(*text);
  return stat ? std::optional(stat->start_ticks) : std::nullopt;
}

std::optional<ProcessStat> parse_process_stat(std::string_view text) {
  // The command is in parentheses and may itself contain any character: count from the last ')'.
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  constexpr auto kNowhere = std::string_view::npos;
  if (open == kNowhere || close == kNowhere || close < open) return std::nullopt;
  if (close + 2 >= text.size()) return std::nullopt;
  ProcessStat stat{std::string(text.substr(open + 1, close - open - 1)), text[close + 2], 0};
  std::size_t at = close;
  constexpr int kFieldsAfterCommand = 20;
  for (int field = 0; field < kFieldsAfterCommand && at != kNowhere; ++field) {
    at = text.find(' ', at + 1);
  }
  if (at == kNowhere) return std::nullopt;
  const auto parsed =
      std::from_chars(text.data() + at + 1, text.data() + text.size(), stat.start_ticks);
  return parsed.ec == std::errc{} ? std::optional(std::move(stat)) : std::nullopt;
}

}  // namespace gpuyard
