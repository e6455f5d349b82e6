#include "io/notify/notification.h"

#include <boost/json.hpp>

#include <fmt/format.h>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/local_time.h"
#include "base/log.h"
#include "base/text.h"
#include "io/notify/requests.h"

namespace gpuyard::notify {
namespace {

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
  const auto wall = text != nullptr ? parse_time(*text, {}) : std::nullopt;
  if (!wall || to_rfc3339(*wall) != *text)
    return problems.add(path, "must be a time such as 2026-01-31T12:00:00.250Z");
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
