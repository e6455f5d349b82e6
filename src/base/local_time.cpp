#include "base/local_time.h"

#include <time.h>

#include <array>
#include <cctype>
#include <chrono>

#include <fmt/format.h>

#include "base/text.h"

namespace gpuyard {
namespace {

using std::chrono::milliseconds;

std::tm local_parts(WallTime when) {
  // to_time_t() counts nanoseconds and overflows after the year 2262.
  const std::time_t seconds =
      std::chrono::floor<std::chrono::seconds>(when.time_since_epoch()).count();
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  return parts;
}

// Takes a number of exactly so many digits.
std::optional<int> take_digits(std::string_view& text, std::size_t count) {
  if (text.size() < count) return std::nullopt;
  int value = 0;
  for (const char c : text.substr(0, count)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(count);
  return value;
}

bool take_one_of(std::string_view& text, std::string_view signs) {
  if (text.empty() || signs.find(text.front()) == signs.npos) return false;
  text.remove_prefix(1);
  return true;
}

struct DateParts {
  int year = 0;
  int month = 0;
  int day = 0;

  bool ok() const {
    return std::chrono::year_month_day(std::chrono::year(year),
                                       std::chrono::month(static_cast<unsigned>(month)),
                                       std::chrono::day(static_cast<unsigned>(day)))
        .ok();
  }
};

struct TimeParts {
  int hour = 0;
  int minute = 0;
  int second = 0;
  milliseconds rest{0};
};

// Takes ".250"; digits beyond the third are dropped.
std::optional<milliseconds> take_fraction(std::string_view& text) {
  if (!text.starts_with('.')) return milliseconds(0);
  text.remove_prefix(1);
  int value = 0;
  int part = 100;
  bool any = false;
  for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1)) {
    value += (text.front() - '0') * part;
    part /= 10;
    any = true;
  }
  return any ? std::optional(milliseconds(value)) : std::nullopt;
}

// Takes "02:10", "2:10", "02:10:05" or "02:10:05.250".
std::optional<TimeParts> take_time(std::string_view& text) {
  TimeParts time;
  const auto hour = take_digits(text, text.find(':') == 1 ? 1 : 2);
  if (!hour || !take_one_of(text, ":")) return std::nullopt;
  const auto minute = take_digits(text, 2);
  if (!minute || *hour > 23 || *minute > 59) return std::nullopt;
  time.hour = *hour;
  time.minute = *minute;
  if (!take_one_of(text, ":")) return time;
  const auto second = take_digits(text, 2);
  const auto rest = second ? take_fraction(text) : std::nullopt;
  if (!rest || *second > 60) return std::nullopt;  // 60: a leap second
  time.second = *second;
  time.rest = *rest;
  return time;
}

// Reads what may follow a time: the distance from UTC, or nothing.
struct Zone {
  std::optional<std::chrono::minutes> offset;  // without one: local
};
std::optional<Zone> parse_zone(std::string_view text) {
  text = trim(text, " ");
  if (text.empty()) return Zone{};
  if (equals_ignoring_case(text, "Z") || text == "UTC") return Zone{std::chrono::minutes(0)};
  const bool west = text.front() == '-';
  if (!take_one_of(text, "+-")) return std::nullopt;
  const auto hours = take_digits(text, 2);
  if (!hours || *hours > 23) return std::nullopt;
  take_one_of(text, ":");
  const auto minutes = text.empty() ? std::optional(0) : take_digits(text, 2);
  if (!minutes || *minutes > 59 || !text.empty()) return std::nullopt;
  const std::chrono::minutes offset = std::chrono::hours(*hours) + std::chrono::minutes(*minutes);
  return Zone{west ? -offset : offset};
}

WallTime moment_of(const DateParts& date, const TimeParts& time, const Zone& zone) {
  constexpr int kFirstYear = 1900;
  std::tm parts{};
  parts.tm_year = date.year - kFirstYear;
  parts.tm_mon = date.month - 1;
  parts.tm_mday = date.day;
  parts.tm_hour = time.hour;
  parts.tm_min = time.minute;
  parts.tm_sec = time.second;
  parts.tm_isdst = -1;
  const std::time_t seconds = zone.offset ? ::timegm(&parts) : ::mktime(&parts);
  const auto at = WallTime(std::chrono::seconds(seconds)) + time.rest;
  return zone.offset ? at - *zone.offset : at;
}

DateParts date_of(const std::tm& parts) {
  constexpr int kFirstYear = 1900;
  return {parts.tm_year + kFirstYear, parts.tm_mon + 1, parts.tm_mday};
}

// "02:10": today, or yesterday if it is not yet so late.
std::optional<WallTime> parse_time_of_day(std::string_view text, WallTime now) {
  const auto time = take_time(text);
  if (!time || !text.empty()) return std::nullopt;
  DateParts date = date_of(local_parts(now));
  const WallTime today = moment_of(date, *time, {});
  if (today <= now) return today;
  --date.day;  // mktime() knows what the day before the first is
  return moment_of(date, *time, {});
}

// "01-31 12:00": this year, or last year if it is not yet so late.
std::optional<WallTime> parse_month_and_day(std::string_view text, WallTime now) {
  const auto month = take_digits(text, 2);
  if (!month || !take_one_of(text, "-")) return std::nullopt;
  const auto day = take_digits(text, 2);
  if (!day || !take_one_of(text, " ")) return std::nullopt;
  const auto time = take_time(text);
  if (!time || !text.empty()) return std::nullopt;
  DateParts date{date_of(local_parts(now)).year, *month, *day};
  const bool this_year = date.ok() && moment_of(date, *time, {}) <= now;
  if (!this_year) --date.year;
  return date.ok() ? std::optional(moment_of(date, *time, {})) : std::nullopt;
}

std::optional<WallTime> parse_date_and_time(std::string_view text) {
  DateParts date;
  const auto year = take_digits(text, 4);
  const std::string_view sign = text.substr(0, 1);
  if (!year || !take_one_of(text, "-/")) return std::nullopt;
  const auto month = take_digits(text, 2);
  if (!month || !take_one_of(text, sign)) return std::nullopt;
  const auto day = take_digits(text, 2);
  if (!day) return std::nullopt;
  date = {*year, *month, *day};
  if (!date.ok()) return std::nullopt;
  if (text.empty()) return moment_of(date, {}, {});
  if (!take_one_of(text, "Tt ")) return std::nullopt;
  const auto time = take_time(text);
  const auto zone = time ? parse_zone(text) : std::nullopt;
  return zone ? std::optional(moment_of(date, *time, *zone)) : std::nullopt;
}

}  // namespace

std::string format_local(WallTime when, const char* format) {
  const std::tm parts = local_parts(when);
  std::array<char, 64> out{};
  return {out.data(), std::strftime(out.data(), out.size(), format, &parts)};
}

std::string local_time(WallTime when, TimeDetail detail) {
  return format_local(when, detail == TimeDetail::minute ? "%Y-%m-%d %H:%M" : "%Y-%m-%d %H:%M:%S");
}

std::string zone_name(WallTime when) {
  const std::string name = format_local(when, "%Z");
  const bool number = name.starts_with('+') || name.starts_with('-');
  return number || name.empty() ? "UTC" + name : name;
}

std::string heading_with_zone(std::string_view heading, WallTime when) {
  return fmt::format("{} ({})", heading, zone_name(when));
}

std::optional<WallTime> parse_time(std::string_view text, WallTime now) {
  text = trim(text);
  if (const auto at = parse_date_and_time(text)) return at;
  if (const auto at = parse_time_of_day(text, now)) return at;
  return parse_month_and_day(text, now);
}

}  // namespace gpuyard
