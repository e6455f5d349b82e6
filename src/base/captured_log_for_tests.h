// Captures log lines for a test while an object of it exists.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"

namespace gpuyard {

class CapturedLog {
 public:
  CapturedLog() {
    lines().clear();
    log::set_level(log::Level::debug);
    log::capture([](log::Level level, std::string_view text) {
      static std::mutex one_at_a_time;  // threads of a room log too
      const std::lock_guard lock(one_at_a_time);
      constexpr const char* kNames[] = {"DEBUG ", "INFO ", "WARNING ", "ERROR "};
      lines().push_back(kNames[static_cast<int>(level)] + std::string(text));
    });
  }
  ~CapturedLog() {
    log::capture(nullptr);
    log::set_level(log::Level::info);
  }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  static std::vector<std::string>& lines() {
    static std::vector<std::string> all;
    return all;
  }
};

}  // namespace gpuyard
