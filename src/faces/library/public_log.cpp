// Where the lines of libgpuyard go, if whoever uses it says so.
#include <atomic>

#include "base/log.h"
#include "gpuyard/log.h"

namespace gpuyard {
namespace {

std::atomic<LogSink> g_sink = nullptr;

static_assert(static_cast<int>(LogLevel::debug) == static_cast<int>(log::Level::debug) &&
              static_cast<int>(LogLevel::error) == static_cast<int>(log::Level::error));

void pass_on(log::Level level, std::string_view text) {
  if (const LogSink sink = g_sink) sink(static_cast<LogLevel>(level), text);
}

}  // namespace

void v0::set_log_sink(LogSink sink, LogLevel least) {
  g_sink = sink;
  log::set_level(static_cast<log::Level>(least));
  log::capture(sink != nullptr ? pass_on : nullptr);
}

}  // namespace gpuyard
