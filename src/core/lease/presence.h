// Whether somebody is there for a claim: a request that waits, or a stream that stays. Pure
// bookkeeping on the io thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/loop.h"

namespace gpuyard::lease {

enum class Attendance : std::uint8_t {
  poll,    // its end says nothing: the caller asks again
  stream,  // its end is its holder's, unless he comes back soon
};

class Presence {
 public:
  explicit Presence(const Loop& loop) : loop_(loop) {}
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

  // As long as this lives.
  Subscription attend(const std::string& lease, Attendance);
  // Since when nobody is there; nothing while somebody is. `since` is when it began to matter.
  std::optional<TimePoint> away_since(const std::string& lease, TimePoint since) const;
  // The same of streams; nothing, too, if there never was one.
  std::optional<TimePoint> stream_gone_since(const std::string& lease) const;
  void forget(const std::string& lease) { seats_.erase(lease); }

 private:
  struct Seat {
    unsigned polls = 0;
    unsigned streams = 0;
    std::optional<TimePoint> last_left = {};
    std::optional<TimePoint> last_stream_left = {};
  };

  void leave(const std::string& lease, Attendance);

  const Loop& loop_;
  std::map<std::string, Seat> seats_;
  std::shared_ptr<Presence*> self_ = std::make_shared<Presence*>(this);
};

}  // namespace gpuyard::lease
