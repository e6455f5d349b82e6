// Counts the use under leases, and under none: held time, energy, utilisation and memory of each
// GPU. Pure state: it is told which lease has which GPU from when until when, and the GPUs'
// readings. Each counted millijoule is of one lease or of none.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/retention.h"
#include "core/usage/usage_storage.h"

namespace gpuyard::usage {

// The energy of a GPU since this daemon first read it. Only grows.
struct Counted {
  TimePoint taken;
  std::int64_t energy_mj = 0;
  std::int64_t estimated_mj = 0;
  Duration unknown{};  // time whose energy is not, or not wholly, known

  friend bool operator==(const Counted&, const Counted&) = default;
};

struct Level {
  TimePoint taken;
  std::int64_t value = 0;
};

// The readings of one GPU. An empty one cannot be read now.
struct UsageSample {
  DeviceId gpu;
  std::optional<Counted> energy = {};
  std::optional<Level> utilization_percent = {};
  std::optional<Level> memory_bytes = {};
};

// The readings of all GPUs. Old readings among them are not counted again.
struct UseReadings {
  TimePoint now;
  WallTime wall;
  std::vector<UsageSample> gpus = {};
};

struct Holding {
  std::string lease;
  std::uint32_t uid = 0;  // of the person, not of one of the person's containers
  std::vector<DeviceId> gpus = {};
  TimePoint granted;
  std::uint64_t fence = 0;
};

// The use under one lease, until now or in all.
struct Use {
  Duration held{};
  std::optional<std::int64_t> energy_mj = {};  // empty: none of it was measured
  bool estimated = false;
  Duration unknown{};  // time that energy_mj does not cover, added up over its GPUs
  std::optional<double> mean_utilization_percent = {};
  std::optional<std::int64_t> peak_bytes = {};  // the peaks of its GPUs, added up
  // How long all of its GPUs have been idle; zero: one is busy. Empty: not known, or it is over.
  std::optional<Duration> idle = {};
  bool settled = false;  // the lease is over, and all of its use was counted

  friend bool operator==(const Use&, const Use&) = default;
};

class UsageAccumulator {
 public:
  // How far back a reading tells of the time before it. Energy that is split between two holders
  // over a longer time is an estimate.
  static constexpr Duration kLongestStep = std::chrono::seconds(5);
  // How long a lease that is over waits for a reading from after its end. If the energy of its last
  // moments is told later, it is of no lease.
  static constexpr Duration kPatience = std::chrono::seconds(5);
  // A lease that was held for less time, and used less energy, gets no row of its own.
  static constexpr Duration kSmallHeld = std::chrono::seconds(10);
  static constexpr std::int64_t kSmallEnergyMj = 1000;
  // How long leases that are over are remembered, and how many of them.
  static constexpr Duration kRemembered = std::chrono::hours(24);
  static constexpr std::size_t kMostRemembered = shares::kOver;

  // Begins to count. Earlier readings only set where counting begins, because the holders are not
  // known before. `found`: leases that began before this, perhaps before this daemon.
  void open(const std::vector<Holding>& found, bool simulated);
  bool is_open() const { return open_; }
  // Takes the rows of an earlier daemon: of leases that were found, of ended ones, and of none.
  void restore(const std::vector<UseRow>&);

  // Beginning a known lease changes nothing, nor does ending an unknown one.
  void begin(const Holding&);
  void end(std::string_view lease, TimePoint at);
  void observe(const UseReadings&);

  std::optional<Use> of(std::string_view lease, TimePoint now) const;
  // Return changed rows, whole. Those of take_over() are of leases that are over, and final.
  std::vector<UseRow> take_over() { return std::exchange(over_rows_, {}); }
  std::vector<UseRow> take_changed();
  std::vector<UseRow> changed() const;
  // Returns the leases that may get more rows.
  std::set<std::string> leases() const;

 private:
  struct Line {
    Tally tally;
    bool changed = false;
  };
  // One GPU under one lease.
  struct Share {
    std::map<Day, Line> days;
    std::optional<TimePoint> held_until;  // empty: its kept rows are not known yet
    std::optional<TimePoint> idle_since;
    TimePoint watched{};  // time of its last utilisation

    // Returns a day's tally to add to, and marks it to be kept again.
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
  // The lease that has a GPU from a moment on. "": none.
  struct Stretch {
    TimePoint from;
    std::string lease;
  };
  struct Gpu {
    std::optional<Counted> last;
    TimePoint watched{};
    std::optional<TimePoint> unleased_until;  // time without a lease is counted up to here
    // The stretch of the last reading, and all later ones.
    std::deque<Stretch> stretches{{TimePoint::min(), ""}};
  };
  // The part from..to of a GPU's growth between two readings.
  struct Growth {
    TimePoint from;
    TimePoint to;
    Counted before;
    Counted now;
    bool roughly = false;  // the shared time is over kLongestStep, and the parts are estimates
  };

  void count(const DeviceId&, Gpu&, const Counted&);
  void book(const std::string& lease, const DeviceId&, const Growth&);
  void watch(const DeviceId&, Gpu&, const Level& utilization);
  void note_memory(const DeviceId&, const Gpu&, const Level& memory);
  Share& share_of(const std::string& lease, const DeviceId&);
  const Stretch* stretch_at(const Gpu&, TimePoint) const;
  void hold(Holder&);
  void count_unleased(const DeviceId&, Gpu&, const std::optional<Counted>& read);
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
