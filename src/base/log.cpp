// The only file that includes spdlog: header-only use costs seconds per translation unit, so that
// cost is paid once, here.
#include "base/log.h"

#include <atomic>

#define SPDLOG_FMT_EXTERNAL
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace gpuyard::log {
namespace {

std::atomic<Capture> g_capture = nullptr;
std::atomic<Level> g_level = Level::info;

spdlog::level::level_enum spdlog_level(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      break;
  }
  return spdlog::level::err;
}

spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger made("gpuyard", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made.set_level(spdlog::level::trace);
    made.set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
    return made;
  }();
  return instance;
}

}  // namespace

void set_level(Level level) {
  g_level = level;
}
bool enabled(Level level) {
  return level >= g_level.load(std::memory_order_relaxed);
}
void capture(Capture capture) {
  g_capture = capture;
}

void write(Level level, std::string_view text) {
  if (!enabled(level)) return;
  if (const Capture capture = g_capture) return capture(level, text);
  logger().log(spdlog_level(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace gpuyard::log
