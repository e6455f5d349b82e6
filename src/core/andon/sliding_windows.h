// Sliding windows: how often something happened, and how much a counter grew. The caller passes the
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"

namespace gpuyard::andon {

// The times of events.
class EventWindow {
 public:
  static constexpr std::size_t kMaxEvents = 1024;  // beyond it the oldest is evicted

  // `text`: the words of the driver about the Xid, or "".
  void add(TimePoint at, std::optional<std::uint32_t> xid, std::string text);
  // The driver's text about the last Xid, which came later than the Xid itself.
  void set_last_text(std::string text) { last_text_ = std::move(text); }
  // Returns how many are younger than `over`.
  double count(Duration over, TimePoint now);
  const std::optional<std::uint32_t>& last_xid() const { return last_xid_; }
  const std::string& last_text() const { return last_text_; }

 private:
  std::deque<TimePoint> times_;
  std::optional<std::uint32_t> last_xid_;
  std::string last_text_;
};

// The growth of a counter that is read repeatedly.
class CounterWindow {
 public:
  // The number of parts of a window. It bounds what is remembered; the answer is off by one part.
  static constexpr int kParts = 60;

  // Returns the growth in the last `over`, or nothing before there are two values. A counter that
  // went back starts again, because its GPU was reset.
  std::optional<double> add(double counter, Duration over, TimePoint now);

 private:
  struct Point {
    TimePoint at;
    double counter = 0;
  };
  std::deque<Point> points_;
};

}  // namespace gpuyard::andon
