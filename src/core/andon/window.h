// What happened within a time that moves along: how often, and how much a counter grew.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/clock.h"

namespace gpuyard::andon {

// Times at which something happened.
class Occurrences {
 public:
  static constexpr std::size_t kMost = 1024;  // beyond it the oldest is forgotten

  void add(TimePoint at, std::optional<std::uint32_t> xid);
  // Those younger than `over`.
  double count(Duration over, TimePoint now);
  const std::optional<std::uint32_t>& last_xid() const { return last_xid_; }

 private:
  std::deque<TimePoint> times_;
  std::optional<std::uint32_t> last_xid_;
};

// A counter, looked at again and again.
class Growth {
 public:
  // So finely is the time divided: what is remembered is bounded, and the answer off by one part.
  static constexpr int kParts = 60;

  // How much it grew in the last `over`. Nothing before there are two values. One that went back
  // begins anew: its GPU was reset.
  std::optional<double> note(double counter, Duration over, TimePoint now);

 private:
  struct Point {
    TimePoint at;
    double counter = 0;
  };
  std::deque<Point> points_;
};

}  // namespace gpuyard::andon
