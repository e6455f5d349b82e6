// Logs the notifications that one sink never gets, by their alerts, in at most one line a minute.
// Inner header of the room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/loop.h"

namespace gpuyard::notify {

// Thread: io.
class DeadLetterLog {
 public:
  DeadLetterLog(Loop& loop, std::string sink) : loop_(loop), sink_(std::move(sink)) {}
  ~DeadLetterLog() { flush(); }
  DeadLetterLog(const DeadLetterLog&) = delete;
  DeadLetterLog& operator=(const DeadLetterLog&) = delete;

  // Logs the first notification at once, and those that follow within a minute together after it.
  void record(const std::string& alert, const std::string& why);
  std::uint64_t total() const { return total_; }

 private:
  void flush();

  Loop& loop_;
  std::string sink_;
  std::uint64_t total_ = 0;
  std::optional<TimePoint> logged_at_;

  std::size_t unlogged_ = 0;
  std::vector<std::string> alerts_;  // of the first ones not logged yet
  std::string last_reason_;          // why the last one is a dead letter
  Subscription timer_;
};

}  // namespace gpuyard::notify
