#include "io/notify/notification.h"

#include <fmt/format.h>

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
