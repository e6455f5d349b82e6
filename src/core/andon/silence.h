// Alerts that nobody is told of for a while: a GPU that is worked on, a rule that is known to trip.
// They are alerts all the same; what is done about them is done.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "andon/alert.h"
#include "base/clock.h"

namespace gpuyard::andon {

struct Silence {
  std::string id;
  std::string rule = {};  // empty: any
  DeviceId gpu = {};      // empty: any, and the machine
  std::string by;
  std::string comment;
  WallTime since{};
  WallTime until{};

  bool covers(const Alert&) const;

  friend bool operator==(const Silence&, const Silence&) = default;
};

class SilenceBook {
 public:
  static constexpr std::size_t kMost = 256;
  static constexpr Duration kLongest = std::chrono::hours(24 * 30);

  // Ends after what is left of it now: a wall clock that is set later changes nothing.
  void put(Silence, TimePoint now, WallTime wall);
  bool remove(const std::string& id) { return book_.erase(id) > 0; }
  // Those whose time is over.
  std::vector<std::string> expire(TimePoint now);

  bool covers(const Alert&) const;
  std::vector<Silence> all() const;
  std::size_t size() const { return book_.size(); }

 private:
  struct Entry {
    Silence silence;
    TimePoint until;
  };
  std::map<std::string, Entry> book_;
};

}  // namespace gpuyard::andon
