// What the log says of notices that one sink never gets: of which alerts they were, in no more than
// a line a minute. Inner header of the room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"

namespace gpuyard::notify {

// On the loop's thread.
class DeadLetterLog {
 public:
  DeadLetterLog(Loop& loop, std::string sink) : loop_(loop), sink_(std::move(sink)) {}
  ~DeadLetterLog() { say(); }
  DeadLetterLog(const DeadLetterLog&) = delete;
  DeadLetterLog& operator=(const DeadLetterLog&) = delete;

  // The first is said at once; those that follow within a minute are said together after it.
  void note(const std::string& alert, const std::string& why);
  std::uint64_t total() const { return total_; }

 private:
  void say();

  Loop& loop_;
  std::string sink_;
  std::uint64_t total_ = 0;
  std::optional<TimePoint> said_at_;

  std::size_t unsaid_ = 0;
  std::vector<std::string> alerts_;  // of the first that are unsaid
  std::string why_;                  // the last is
  Subscription timer_;
};

}  // namespace gpuyard::notify
