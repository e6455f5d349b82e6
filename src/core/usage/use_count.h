// What is used under leases, and under none: held time, energy, utilisation and memory of each GPU.
// Pure state: it is told who has which GPU from when until when, and what the GPUs say. Each
// millijoule that is counted is somebody's, or nobody's.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/retention.h"
#include "base/shares.h"
#include "usage/use_books.h"

namespace gpuyard::usage {

// What a GPU used since this daemon first read it. Only grows.
struct Counted {
  TimePoint taken;
  std::int64_t energy_mj = 0;
  std::int64_t estimated_mj = 0;
  Duration unknown{};  // time of which the energy is not, or not wholly, known

  friend bool operator==(const Counted&, const Counted&) = default;
};

struct Level {
  TimePoint taken;
  std::int64_t value = 0;
};

// Nothing: it cannot be read now.
struct UseReading {
  DeviceId gpu;
  std::optional<Counted> energy = {};
  std::optional<Level> utilization_percent = {};
  std::optional<Level> memory_bytes = {};
};

// Old readings and new; old ones are not counted again.
struct UseReadings {
  TimePoint now;
  WallTime wall;
  std::vector<UseReading> gpus = {};
};

struct Holding {
  std::string lease;
  std::uint32_t uid = 0;  // of the person, not of one of his containers
  std::vector<DeviceId> gpus = {};
  TimePoint granted;
  std::uint64_t fence = 0;
};

// What was used under one lease until now, or in all.
struct Use {
  Duration held{};
  std::optional<std::int64_t> energy_mj = {};  // nothing: nobody measured any of it
  bool estimated = false;
  Duration unknown{};  // of its GPUs, added up: time that energy_mj says nothing of
  std::optional<double> mean_utilization_percent = {};
  std::optional<std::int64_t> peak_bytes = {};  // those of its GPUs, added up
  // Since when none of its GPUs did anything; zero: one does. Nothing: not known, or it is over.
  std::optional<Duration> idle = {};
  bool settled = false;  // it is over, and all of it was counted

  friend bool operator==(const Use&, const Use&) = default;
};

class UseCount {
 public:
  // A reading says nothing of the time that is further back. What has to be split between two
  // holders over a longer time is an estimate.
  static constexpr Duration kLongestStep = std::chrono::seconds(5);
  // So long does a lease that is over wait for a reading from after its end. What the GPU used in
  // its last moments and tells later is nobody's then.
  static constexpr Duration kPatience = std::chrono::seconds(5);
  // Held for less, and with less used, a lease has no row of its own.
  static constexpr Duration kSmallHeld = std::chrono::seconds(10);
  static constexpr std::int64_t kSmallEnergyMj = 1000;
  // So long, and so many of them, are leases known that are over.
  static constexpr Duration kRemembered = std::chrono::hours(24);
  static constexpr std::size_t kMostRemembered = shares::kOver;

  // Until then readings are only where counting begins: who has what is not known yet. `found`:
  // held since before this, perhaps since before this daemon.
  void open(const std::vector<Holding>& found, bool simulated);
  bool is_open() const { return open_; }
  // What an earlier daemon kept: of leases that were found, of others that are over, and of none.
  void restore(const std::vector<UseRow>&);

  // What is known already is left as it is, and so is what is not.
  void begin(const Holding&);
  void end(std::string_view lease, TimePoint at);
  void observe(const UseReadings&);

  std::optional<Use> of(std::string_view lease, TimePoint now) const;
  // What has changed, whole. First: of leases that are over, which is all there will be of them.
  std::vector<UseRow> take_over() { return std::exchange(over_rows_, {}); }
  std::vector<UseRow> take_changed();
  std::vector<UseRow> changed() const;
  // Of which there may be more.
  std::set<std::string> leases() const;

 private:
  struct Line {
    Tally tally;
    bool changed = false;
  };
  // One GPU under one lease.
  struct Share {
    std::map<Day, Line> days;
    std::optional<TimePoint> held_until;  // nothing: what was kept of it is not known yet
    std::optional<TimePoint> idle_since;
    TimePoint watched{};  // its last utilisation

    // To be added to, and kept again.
    Tally& changing(Day day) {
      Line& line = days[day];
      line.changed = true;
      return line.tally;
    }
  };
  struct Holder {
    std::uint32_t uid = 0;
    std::uint64_t fence = 0;  // of its rows
    TimePoint granted;
    std::optional<TimePoint> ended;
    std::map<DeviceId, Share> shares;
  };
  // Whose a GPU is from a moment on. "": nobody's.
  struct Stretch {
    TimePoint from;
    std::string lease;
  };
  struct Gpu {
    std::optional<Counted> last;
    TimePoint watched{};
    // From that of the last reading on.
    std::deque<Stretch> stretches{{TimePoint::min(), ""}};
  };
  // The part from..to of what a GPU grew by between two readings.
  struct Growth {
    TimePoint from;
    TimePoint to;
    Counted before;
    Counted now;
    bool roughly = false;  // so long a time is shared that the parts are estimates
  };

  void count(const DeviceId&, Gpu&, const Counted&);
  void book(const std::string& lease, const DeviceId&, const Growth&);
  void watch(const DeviceId&, Gpu&, const Level& utilization);
  void note_memory(const DeviceId&, const Gpu&, const Level& memory);
  Share& share_of(const std::string& lease, const DeviceId&);
  const Stretch* stretch_at(const Gpu&, TimePoint) const;
  void hold(Holder&);
  bool waits(const std::string& lease, const Holder&) const;
  void close(const std::string& lease, Holder&);
  void close_all();
  void go_on_without_fences(const std::vector<UseRow>&);
  static void mark_all(Holder&, bool changed);
  void remember(const std::string& lease, std::uint32_t uid, Use);
  void put_changed(const std::string& lease, const Holder&, std::vector<UseRow>&) const;
  Day day_of(TimePoint) const;
  static Tally total(const Share&);
  static std::optional<Duration> idle_of(const Holder&, TimePoint now);
  template <class Visit>
  void each_day(TimePoint from, TimePoint to, Visit&& visit) const;

  bool open_ = false;
  bool simulated_ = false;
  TimePoint now_{};
  WallTime wall_{};
  std::map<DeviceId, Gpu> gpus_;
  std::map<std::string, Holder, std::less<>> holders_{{"", {}}};
  std::map<std::string, Use, std::less<>> remembered_;
  Retention<TimePoint> past_;  // of remembered_
  std::vector<UseRow> over_rows_;
};

}  // namespace gpuyard::usage
