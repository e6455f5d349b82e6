#include "notify/log_line.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/printable.h"
#include "notify/requests.h"

namespace gpuyard::notify {
namespace {

// A log line is written at once or not at all, so it has to be short (PIPE_BUF).
constexpr std::size_t kMostMessage = 2000;

}  // namespace

std::string log_line(const Notice& notice) {
  const std::string message = printable(clipped(notice.message, kMostMessage));
  return fmt::format("{} [severity {}]: {}", notice.status == Status::firing ? "ALERT" : "RESOLVED",
                     notice.severity, message);
}

void put_into_log(const Notice& notice) {
  const bool over = notice.status == Status::resolved;
  if (over || notice.level == Level::info) return log::info("{}", log_line(notice));
  if (notice.level == Level::warning) return log::warning("{}", log_line(notice));
  log::error("{}", log_line(notice));
}

}  // namespace gpuyard::notify
