#include "notify/notice.h"

#include <charconv>
#include <string_view>

#include <boost/json.hpp>

#include "base/json_reader.h"
#include "base/json_writer.h"

namespace gpuyard::notify {
namespace {

// The digits of `text` from `at` on, so many of them; nothing if one is none.
std::optional<int> number_at(std::string_view text, std::size_t at, std::size_t length) {
  int number = 0;
  const char* end = text.data() + at + length;
  const auto parsed = std::from_chars(text.data() + at, end, number);
  const bool whole = parsed.ec == std::errc{} && parsed.ptr == end && text[at] != '-';
  return whole ? std::optional(number) : std::nullopt;
}

// As to_rfc3339() writes it, and no other way.
std::optional<WallTime> from_rfc3339(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00.000Z";
  if (text.size() != kForm.size()) return std::nullopt;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    if (kForm[i] != '0' && kForm[i] != text[i]) return std::nullopt;
  }
  const auto year = number_at(text, 0, 4);
  const auto month = number_at(text, 5, 2);
  const auto day = number_at(text, 8, 2);
  const auto hour = number_at(text, 11, 2);
  const auto minute = number_at(text, 14, 2);
  const auto second = number_at(text, 17, 2);
  const auto millisecond = number_at(text, 20, 3);
  if (!year || !month || !day || !hour || !minute || !second || !millisecond) return std::nullopt;
  const auto date = std::chrono::year(*year) / *month / *day;
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  return WallTime(std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(*hour) +
                  std::chrono::minutes(*minute) + std::chrono::seconds(*second) +
                  std::chrono::milliseconds(*millisecond));
}

}  // namespace

Level level_of(unsigned severity) {
  if (severity >= 80) return Level::critical;
  if (severity >= 60) return Level::error;
  return severity >= 40 ? Level::warning : Level::info;
}

void put_json(std::string& out, const NoticeTime& time) {
  json::put_string(out, to_rfc3339(time.at));
}

void read_json(const boost::json::value& from, NoticeTime& time, const std::string& path,
               json::Problems& problems) {
  const auto* text = from.if_string();
  const auto wall = text != nullptr ? from_rfc3339(*text) : std::nullopt;
  if (!wall) return problems.add(path, "must be a time like 2026-01-31T12:00:00.250Z");
  time = *wall;
}

void schema_of(std::type_identity<NoticeTime>, boost::json::object& out) {
  out = {{"type", "string"}, {"format", "date-time"}};
}

}  // namespace gpuyard::notify
