// The program's log: leveled lines on stderr. stdout is for data and is never logged to.
#pragma once

#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace gpuyard::log {

enum class Level { debug, info, warning, error };

// Thread: any. set_level is for start-up; the default is info.
void set_level(Level);
bool is_enabled(Level);
void write(Level, std::string_view text);

// Sends lines to this function instead, for tests; nullptr restores stderr.
using Capture = void (*)(Level, std::string_view);
void capture(Capture);

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (is_enabled(Level::debug))
    write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (is_enabled(Level::info)) write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::warning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace gpuyard::log
