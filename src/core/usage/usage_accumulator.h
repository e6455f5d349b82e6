// Counts the use under leases, and under none: held time, energy, utilisation and memory of each
// GPU. Pure state: the caller passes which lease has which GPU from when until when, and the GPUs'
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
#include "gpu/device/energy_total.h"

namespace gpuyard::usage {

struct GaugeValue {
  TimePoint taken;
  std::int64_t value = 0;
};

// The readings of one GPU. An empty one cannot be read now.
struct UsageSample {
  DeviceId gpu;
  std::optional<EnergyTotal> energy = {};
  std::optional<GaugeValue> utilization_percent = {};
  std::optional<GaugeValue> memory_bytes = {};
};

// The readings of all GPUs. Old readings among them are not counted again.
struct UsageSnapshot {
  TimePoint now;
  WallTime wall;
  std::vector<UsageSample> gpus = {};
  // A reading covers at most this much time before it. Energy that is split between two holders
  // over a longer time is an estimate.
  Duration max_step = std::chrono::seconds(5);
};

struct LeaseGrant {
  std::string lease;
  std::uint32_t uid = 0;  // of the quota owner, not of one of their containers
  std::vector<DeviceId> gpus = {};
  TimePoint granted_at;
  std::uint64_t fence = 0;
  std::string pod = {};  // "default/trainer-0"; "": not a pod's
};

// The use under one lease, until now or in all.
struct LeaseUsage {
  Duration held{};
  std::optional<std::int64_t> energy_mj = {};  // empty: none of it was measured
  bool estimated = false;
  Duration unknown{};  // time that energy_mj does not cover, added up over its GPUs
  std::optional<double> mean_utilization_percent = {};
  std::optional<std::int64_t> peak_bytes = {};  // the peaks of its GPUs, added up
  // The time for which all of its GPUs have been idle; zero: one is busy. Empty: not known, or it
  // is over.
  std::optional<Duration> idle = {};
  bool settled = false;  // the lease is over, and all of its use was counted

  friend bool operator==(const LeaseUsage&, const LeaseUsage&) = default;
};

class UsageAccumulator {
 public:
  // A lease that is over waits this long for a reading from after its end. Energy of its last
  // moments that is read later is of no lease.
  static constexpr Duration kFinalReadingTimeout = std::chrono::seconds(5);
  // A lease that was held for less time, and used less energy, gets no row of its own.
  static constexpr Duration kMinHeldTime = std::chrono::seconds(10);
  static constexpr std::int64_t kMinEnergyMj = 1000;
  // Leases that are over stay in memory for this long, and at most so many of them.
  static constexpr Duration kEndedRetention = std::chrono::hours(24);
  static constexpr std::size_t kMaxEndedLeases = limits::kMaxEndedLeases;

  // Begins to count. Earlier readings only set where counting begins, because the holders are not
  // known before. `found`: leases that began before this, perhaps before this daemon.
  void open(const std::vector<LeaseGrant>& found, bool simulated);
  bool is_open() const { return open_; }
  // Takes the rows of an earlier daemon: of leases that were found, of ended ones, and of none.
  void restore(const std::vector<UsageRow>&);

  // Beginning a known lease changes nothing, nor does ending an unknown one.
  void begin(const LeaseGrant&);
  void end(std::string_view lease, TimePoint at);
  void record(const UsageSnapshot&);

  std::optional<LeaseUsage> usage_of(std::string_view lease, TimePoint now) const;
  // Return changed rows, whole. The rows of take_ended_rows() are of ended leases, and final.
  std::vector<UsageRow> take_ended_rows() { return std::exchange(ended_rows_, {}); }
  std::vector<UsageRow> take_changed_rows();
  std::vector<UsageRow> changed_rows() const;
  // Returns the leases that may get more rows.
  std::set<std::string> leases() const;

 private:
  struct DayCounters {
    UsageCounters counters;
    bool changed = false;
  };
  // One GPU under one lease.
  struct GpuUsage {
    std::map<Day, DayCounters> days;
    std::optional<TimePoint> held_until;  // empty: its stored rows are not known yet
    std::optional<TimePoint> idle_since;
    TimePoint utilization_at{};  // time of its last utilisation

    // Returns a day's counters to add to, and marks them to be saved again.
    UsageCounters& mutable_counters(Day day) {
      DayCounters& day_counters = days[day];
      day_counters.changed = true;
      return day_counters.counters;
    }
  };
  struct Holder {
    std::uint32_t uid = 0;
    std::uint64_t fence = 0;  // of its rows
    std::string pod = {};
    TimePoint granted_at;
    std::optional<TimePoint> ended_at;
    std::map<DeviceId, GpuUsage> gpus;
  };
  // The lease that has a GPU from a moment on. "": none.
  struct HoldSpan {
    TimePoint from;
    std::string lease;
  };
  struct Gpu {
    std::optional<EnergyTotal> last_energy;
    TimePoint utilization_at{};
    std::optional<TimePoint> unleased_until;  // time without a lease is counted up to here
    // The span of the last reading, and all later ones.
    std::deque<HoldSpan> spans{{TimePoint::min(), ""}};
  };
  // The part from..to of a GPU's growth between two readings.
  struct CounterStep {
    TimePoint from;
    TimePoint to;
    EnergyTotal before;
    EnergyTotal now;
    bool estimated = false;  // the shared time is over max_step, and the parts are estimates
  };

  void count_energy(const DeviceId&, Gpu&, const EnergyTotal&);
  void book(const std::string& lease, const DeviceId&, const CounterStep&);
  void count_utilization(const DeviceId&, Gpu&, const GaugeValue& utilization);
  void update_peak_memory(const DeviceId&, const Gpu&, const GaugeValue& memory);
  GpuUsage& gpu_usage_of(const std::string& lease, const DeviceId&);
  const HoldSpan* span_at(const Gpu&, TimePoint) const;
  void count_held_time(Holder&);
  void count_unleased(const DeviceId&, Gpu&, const std::optional<EnergyTotal>& read);
  bool needs_final_reading(const std::string& lease, const Holder&) const;
  void close(const std::string& lease, Holder&);
  void close_all();
  void clear_unrecorded_fences(const std::vector<UsageRow>&);
  static void set_changed(Holder&, bool changed);
  void store_ended_usage(const std::string& lease, std::uint32_t uid, LeaseUsage);
  void append_changed_rows(const std::string& lease, const Holder&, std::vector<UsageRow>&) const;
  Day day_of(TimePoint) const;
  static UsageCounters total(const GpuUsage&);
  std::optional<Duration> idle_of(const Holder&, TimePoint now) const;
  template <class Visit>
  void for_each_day(TimePoint from, TimePoint to, Visit&& visit) const;

  bool open_ = false;
  bool simulated_ = false;
  TimePoint now_{};
  Duration max_step_ = UsageSnapshot{}.max_step;
  WallTime wall_{};
  std::map<DeviceId, Gpu> gpus_;
  std::map<std::string, Holder, std::less<>> holders_{{"", {}}};
  std::map<std::string, LeaseUsage, std::less<>> ended_usage_;
  Retention<TimePoint> ended_retention_;  // of ended_usage_
  std::vector<UsageRow> ended_rows_;
};

}  // namespace gpuyard::usage
