#include "cli/screen/moment.h"

#include <array>
#include <ctime>

#include "base/printable.h"

namespace gpuyard::cli {

std::string local_moment(std::string_view rfc3339, WallTime now) {
  const std::string text(rfc3339);
  std::tm utc{};
  if (::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &utc) == nullptr) return printable(text);
  const std::time_t moment = ::timegm(&utc);
  const std::time_t today = std::chrono::system_clock::to_time_t(now);
  std::tm local{};
  std::tm local_today{};
  ::localtime_r(&moment, &local);
  ::localtime_r(&today, &local_today);
  const bool same_day =
      local.tm_year == local_today.tm_year && local.tm_yday == local_today.tm_yday;
  std::array<char, 32> out{};
  const char* const format = same_day ? "%H:%M" : "%Y-%m-%d %H:%M";
  return {out.data(), std::strftime(out.data(), out.size(), format, &local)};
}

}  // namespace gpuyard::cli
