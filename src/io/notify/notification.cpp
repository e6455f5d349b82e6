#include "io/notify/notification.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <boost/json.hpp>

#include <fmt/format.h>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/log.h"
#include "base/text.h"
#include "io/notify/requests.h"

namespace gpuyard::notify {
namespace {

// Reads only the form that to_rfc3339() writes.
std::optional<WallTime> from_rfc3339(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00.000Z";
  const bool formed = std::ranges::equal(text, kForm, [](char given, char form) {
    return form == '0' ? given >= '0' && given <= '9' : given == form;
  });
  if (!formed) return std::nullopt;
  const auto number = [&](std::size_t at, std::size_t length) {
    return parse_number<int>(text.substr(at, length)).value_or(0);
  };
  const auto date = std::chrono::year(number(0, 4)) / number(5, 2) / number(8, 2);
  const std::chrono::hours hour(number(11, 2));
  const std::chrono::minutes minute(number(14, 2));
  const std::chrono::seconds second(number(17, 2));
  const std::chrono::milliseconds millisecond(number(20, 3));
  if (!date.ok() || hour.count() > 23 || minute.count() > 59 || second.count() > 60) {
    return std::nullopt;
  }
  return WallTime(std::chrono::sys_days(date).time_since_epoch() + hour + minute + second +
                  millisecond);
}

// A log line is written at once or not at all, so it has to be short (PIPE_BUF).
constexpr std::size_t kMaxMessageBytes = 2000;

}  // namespace

NotificationLevel level_of(unsigned severity) {
  if (severity >= 80) return NotificationLevel::critical;
  if (severity >= 60) return NotificationLevel::error;
  return severity >= 40 ? NotificationLevel::warning : NotificationLevel::info;
}

std::string name_of(const NotificationGpu& gpu) {
  return gpu.index ? std::to_string(*gpu.index) : gpu.uuid;
}

void put_json(std::string& out, const NotificationTime& time) {
  json::put_string(out, to_rfc3339(time.at));
}

void read_json(const boost::json::value& from, NotificationTime& time, const std::string& path,
               json::Problems& problems) {
  const auto* text = from.if_string();
  const auto wall = text != nullptr ? from_rfc3339(*text) : std::nullopt;
  if (!wall) return problems.add(path, "must be a time such as 2026-01-31T12:00:00.250Z");
  time = *wall;
}

void schema_of(std::type_identity<NotificationTime>, boost::json::object& out) {
  out = {{"type", "string"}, {"format", "date-time"}};
}

std::string log_line(const Notification& notification) {
  const std::string message = printable(clip_text(notification.message, kMaxMessageBytes));
  return fmt::format("{} [severity {}]: {}",
                     notification.status == Status::firing ? "ALERT" : "RESOLVED",
                     notification.severity, message);
}

void log_notification(const Notification& notification) {
  const bool is_resolved = notification.status == Status::resolved;
  if (is_resolved || notification.level == NotificationLevel::info)
    return log::info("{}", log_line(notification));
  if (notification.level == NotificationLevel::warning)
    return log::warning("{}", log_line(notification));
  log::error("{}", log_line(notification));
}

}  // namespace gpuyard::notify
