/// @file
/// The library's log lines, and where they go.
#pragma once

#include <cstdint>
#include <string_view>

#include "gpuyard/export.h"

namespace gpuyard {
inline namespace v0 {

/// The importance of a log line.
enum class LogLevel : std::uint8_t {
  debug,    ///< for finding a fault
  info,     ///< an action was done
  warning,  ///< an action was requested and not done
  error,    ///< a fault that needs attention
};

/// Receives a line without a newline; the text is valid during the call only. Any thread may call
/// the sink, several at once.
using LogSink = void (*)(LogLevel, std::string_view);

/// Sets where the library's log lines of this whole process go from now on; nullptr is stderr, the
/// default. Lines below `least` are dropped.
GPUYARD_API void set_log_sink(LogSink sink, LogLevel least = LogLevel::info);

}  // namespace v0
}  // namespace gpuyard
