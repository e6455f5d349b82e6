// The daemon's record of the use under each lease: takes fresh readings where a lease begins and
// ends, and saves the rows.
//
// UsageAccumulator cuts each GPU's time into spans, each of one lease or of none, and every growth
// of the GPU's energy account along them: each millijoule is of one lease or of none. Energy that
// was used while the daemon was down is of no lease. A growth that began under one holder and ended
// under another is shared by time. There is a row for each day in UTC, lease and GPU; it is saved
// when the lease is over, and every minute. A query includes the rows that are not written yet, and
// writes nothing.
//
// Thread: io.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/lifetime.h"
#include "base/loop.h"
#include "base/result.h"
#include "core/usage/usage_accumulator.h"
#include "core/usage/usage_storage.h"
#include "gpu/device/device.h"

namespace gpuyard::usage {

// Reads these GPUs at this moment. The callback always comes, and never inside the call.
class UsageReader {
 public:
  virtual ~UsageReader() = default;
  virtual void read_fresh(const std::vector<DeviceId>& gpus,
                          std::function<void(const UsageSnapshot&)> on_done) = 0;
};

class UsageRecorder {
 public:
  // Changed rows are saved at this interval. A daemon that is killed loses at most this much of the
  // use of running leases, and none of the ended ones.
  static constexpr Duration kSaveInterval = std::chrono::seconds(60);
  // Rows that could not be read are loaded again after this time.
  static constexpr Duration kLoadRetryDelay = std::chrono::seconds(5);
  // The most rows that wait for a failing disk. Beyond them the oldest are lost, and notes() says
  // so.
  static constexpr std::size_t kMaxUnsavedRows = 100'000;
  // The number of queries that run at a time: grants wait behind them for the same disk.
  static constexpr std::size_t kMaxConcurrentQueries = 2;

  using OnReport = std::function<void(Result<UsageReport>)>;

  // The leases that are known at the start.
  struct InitialLeases {
    std::vector<LeaseGrant> held = {};
    std::set<std::string> ended = {};  // ended not long ago
    Day since;                         // the first day of any of them
    bool simulated = false;
  };

  // The loop, the reader and the storage outlive the recorder.
  UsageRecorder(Loop&, UsageReader&, UsageStorage&);

  // Begins to count. Readings that came before set where counting begins.
  void open(InitialLeases);
  bool is_open() const { return accumulator_.is_open(); }
  // Saves all once more.
  void stop();

  void begin(const LeaseGrant&);
  void end(const LeaseGrant&, TimePoint at);
  void record(const UsageSnapshot&);

  // Returns nothing for a lease that had no GPUs within the last day, nor for one of an earlier
  // daemon before its stored use is read: what is not known is not 0.
  std::optional<LeaseUsage> usage_of(std::string_view lease) const;
  // Sums over all leases, up to the last reading. Errc::unavailable: the rows cannot be read now.
  void query(const UsageQuery&, OnReport);
  bool is_simulated() const { return initial_leases_.simulated; }
  // Describes present problems, for people.
  std::vector<std::string> notes() const;

 private:
  using Key = std::tuple<Day, std::string, std::uint64_t, DeviceId>;

  void load();
  void tick();
  void request_reading(const std::vector<DeviceId>& gpus);
  void add_unsaved(std::vector<UsageRow>);
  void save();
  void on_saved(const UsageTransaction&, const Result<void>&);
  std::vector<UsageRow> unsaved_rows() const;

  Loop& loop_;
  UsageReader& reader_;
  UsageStorage& storage_;
  UsageAccumulator accumulator_;
  InitialLeases initial_leases_;
  bool restored_ = false;
  bool saving_ = false;
  std::size_t lost_rows_ = 0;
  std::map<Key, UsageRow> unsaved_rows_;
  std::vector<UsageRow> rows_to_compact_;  // rows that are stored already
  Subscription timer_;
  Subscription load_timer_;
  std::size_t running_queries_ = 0;
  // Keeps callbacks from running after the recorder has gone.
  Lifetime lifetime_;
};

}  // namespace gpuyard::usage
