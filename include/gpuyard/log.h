/// @file
/// What the library tells a log.
#pragma once

#include <cstdint>
#include <string_view>

#include "gpuyard/export.h"

namespace gpuyard {
inline namespace v0 {

/// How much a line matters.
enum class LogLevel : std::uint8_t {
  debug,    ///< for whoever looks for a fault
  info,     ///< what was done
  warning,  ///< what was asked for and not done
  error,    ///< what somebody should look at
};

/// Takes a line without a newline, which is not kept. Any thread may call it, several at once.
using LogSink = void (*)(LogLevel, std::string_view);

/// Where the library's lines go from now on, of this whole process; nullptr is stderr, where they
/// go at first. Lines below `least` go nowhere.
GPUYARD_API void set_log_sink(LogSink sink, LogLevel least = LogLevel::info);

}  // namespace v0
}  // namespace gpuyard
