// Silences: for a while nobody is notified of certain alerts, because a GPU is worked on or a rule
// is known to trip. The alerts exist all the same, and their actions are taken. The caller passes
// the time.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "core/andon/alert.h"
#include "gpu/device/device.h"

namespace gpuyard::andon {

struct Silence {
  std::string id;
  std::string rule = {};  // empty: any
  DeviceId gpu = {};      // empty: any, and the machine
  std::string by;
  std::string comment;
  WallTime since{};
  WallTime until{};

  bool matches(const Alert&) const;

  friend bool operator==(const Silence&, const Silence&) = default;
};

class SilenceTable {
 public:
  static constexpr std::size_t kMaxSilences = 256;
  static constexpr std::size_t kReservedForAdmins = 64;  // of these
  static constexpr Duration kMaxDuration = std::chrono::hours(24 * 30);

  // The silence ends after the time that it has left at `wall`. Setting the wall clock later
  // changes nothing.
  void put(Silence, TimePoint now, WallTime wall);
  bool remove(const std::string& id) { return entries_.erase(id) > 0; }
  // Returns the id that is this name, or the only one that begins with it.
  std::optional<std::string> find_id(std::string_view name) const;
  // Removes the silences whose time is over, and returns their ids.
  std::vector<std::string> expire(TimePoint now);

  bool is_silenced(const Alert&) const;
  std::vector<Silence> all() const;
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Silence silence;
    TimePoint until;
  };
  std::map<std::string, Entry> entries_;
};

}  // namespace gpuyard::andon
