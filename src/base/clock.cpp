#include "base/clock.h"

#include <time.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <climits>
#include <ctime>
#include <stdexcept>

#include <fmt/format.h>

#include "base/files.h"

namespace gpuyard {

TimePoint BootClock::now() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return TimePoint(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

WallTime wall_now() {
  return std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
}

std::string to_rfc3339(WallTime when) {
  const auto day = std::chrono::floor<std::chrono::days>(when);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(when - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count(),
                     time.subseconds().count());
}

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

std::string short_duration(std::int64_t seconds) {
  constexpr std::int64_t kMinute = 60;
  constexpr std::int64_t kHour = 60 * kMinute;
  constexpr std::int64_t kDay = 24 * kHour;
  if (seconds < kMinute) return fmt::format("{}s", std::max<std::int64_t>(seconds, 0));
  if (seconds < kHour) return fmt::format("{}m", seconds / kMinute);
  if (seconds < kDay) return fmt::format("{}h{:02}", seconds / kHour, seconds % kHour / kMinute);
  return fmt::format("{}d{:02}h", seconds / kDay, seconds % kDay / kHour);
}

std::optional<WallTime> from_rfc3339(std::string_view text) {
  const std::string whole(text);
  std::tm utc{};
  if (::strptime(whole.c_str(), "%Y-%m-%dT%H:%M:%S", &utc) == nullptr) return std::nullopt;
  return WallTime(std::chrono::seconds(::timegm(&utc)));
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size()) == 0 ? std::string(name.data()) : "";
}

std::string new_id() {
  std::uint64_t number = 0;
  // std::random_device calls a function that only glibc 2.36 and newer have. This one fails only if
  // the kernel is older than 3.17.
  if (::getentropy(&number, sizeof number) != 0) throw std::runtime_error("no random numbers");
  return fmt::format("{:016x}", number);
}

}  // namespace gpuyard
