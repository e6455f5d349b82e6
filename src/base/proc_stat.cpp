#include "base/proc_stat.h"

#include <charconv>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"

namespace gpuyard {
namespace {

// Parses the number-th field after the command.
template <class T>
bool parse_field(std::string_view after_command, int number, T& value) {
  std::size_t at = 0;
  for (int field = 0; field < number; ++field) {
    at = after_command.find(' ', at);
    if (at == std::string_view::npos) return false;
    ++at;
  }
  const char* const end = after_command.data() + after_command.size();
  return std::from_chars(after_command.data() + at, end, value).ec == std::errc{};
}

}  // namespace

std::string boot_id() {
  const auto text = read_file("/proc/sys/kernel/random/boot_id", 64);
  return text ? std::string(trim(*text)) : "";
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
  ProcessStat stat;
  stat.command = text.substr(open + 1, close - open - 1);
  stat.state = text[close + 2];
  const std::string_view rest = text.substr(close);
  constexpr int kParent = 2;
  constexpr int kUserTicks = 12;
  constexpr int kKernelTicks = 13;
  constexpr int kThreads = 18;
  constexpr int kStart = 20;
  constexpr int kMemory = 21;
  constexpr int kResident = 22;
  constexpr int kEnvironmentEnd = 49;
  const bool whole = parse_field(rest, kParent, stat.parent) &&
                     parse_field(rest, kThreads, stat.threads) &&
                     parse_field(rest, kStart, stat.start_ticks);
  std::uint64_t kernel_ticks = 0;
  if (parse_field(rest, kUserTicks, stat.cpu_ticks) &&
      parse_field(rest, kKernelTicks, kernel_ticks)) {
    stat.cpu_ticks += kernel_ticks;
  }
  parse_field(rest, kResident, stat.resident_pages);
  std::uint64_t memory_bytes = 0;
  std::uint64_t environment_end = 0;
  stat.loading = parse_field(rest, kMemory, memory_bytes) && memory_bytes > 0 &&
                 parse_field(rest, kEnvironmentEnd, environment_end) && environment_end == 0;
  return whole ? std::optional(std::move(stat)) : std::nullopt;
}

}  // namespace gpuyard
