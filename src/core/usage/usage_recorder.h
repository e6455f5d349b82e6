// The daemon's record of the use under each lease: takes fresh readings where a lease begins and
// ends, and keeps the books. Lives on the io thread.
//
// UsageAccumulator cuts each GPU's time into stretches, each of one lease or of none, and every
// growth of the GPU's energy account along them: each millijoule is of one lease or of none. Energy
// that was used while the daemon was down is of no lease. A growth that began under one holder and
// ended under another is shared by time. There is a row for each day in UTC, lease and GPU; it is
// kept when the lease is over, and every minute. A question includes the rows that are not written
// yet, and writes nothing.
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
#include "base/loop.h"
#include "base/result.h"
#include "core/usage/usage_accumulator.h"
#include "core/usage/usage_storage.h"
#include "gpu/device/device.h"

namespace gpuyard::usage {

// Reads the GPUs at this moment. The answer always comes, and never inside the call.
class UsageReader {
 public:
  virtual ~UsageReader() = default;
  virtual void fresh(std::function<void(const UseReadings&)> done) = 0;
};

class UsageRecorder {
 public:
  // How often changed rows are saved. A daemon that is killed loses at most this much of the use of
  // running leases, and none of the ended ones.
  static constexpr Duration kKeepEvery = std::chrono::seconds(60);
  // How soon books that could not be read are asked for again.
  static constexpr Duration kRetry = std::chrono::seconds(5);
  // How many rows wait for a disk that fails. Then the oldest are lost, and notes() says so.
  static constexpr std::size_t kMostUnkept = 100'000;
  // How many questions are asked at a time: grants wait behind them for the same disk.
  static constexpr std::size_t kMostAsking = 2;

  using Answer = std::function<void(Result<UsageReport>)>;

  // The leases that are known at the start.
  struct Found {
    std::vector<Holding> held = {};
    std::set<std::string> over = {};  // ended not long ago
    Day since;                        // the first day of any of them
    bool simulated = false;
  };

  // The loop, the reads and the archive outlive it.
  UsageRecorder(Loop&, UsageReader&, UsageStorage&);

  // Begins to count. Readings that came before set where counting begins.
  void open(Found);
  bool is_open() const { return count_.is_open(); }
  // Saves all once more.
  void stop();

  void begin(const Holding&);
  void end(std::string_view lease, TimePoint at);
  void observe(const UseReadings&);

  // Returns nothing for a lease that had no GPUs within the last day, nor for one of an earlier
  // daemon before its kept use is read: what is not known is not 0.
  std::optional<Use> of(std::string_view lease) const;
  // Answers over all leases, up to the last reading. Errc::unavailable: the books cannot be read
  // now.
  void ask(const UseQuestion&, Answer);
  bool simulated() const { return found_.simulated; }
  // Describes present problems, for people.
  std::vector<std::string> notes() const;

 private:
  using Key = std::tuple<Day, std::string, std::uint64_t, DeviceId>;

  void load();
  void tick();
  void read_edge();
  void collect(std::vector<UseRow>);
  void keep();
  void on_kept(const UsageTransaction&, const Result<void>&);
  std::vector<UseRow> unkept() const;

  Loop& loop_;
  UsageReader& reads_;
  UsageStorage& archive_;
  UsageAccumulator count_;
  Found found_;
  bool restored_ = false;
  bool keeping_ = false;
  std::size_t lost_ = 0;
  std::map<Key, UseRow> unkept_;
  std::vector<UseRow> to_fold_;  // rows that are kept already
  Subscription timer_;
  Subscription retry_;
  std::size_t asking_ = 0;
  // Keeps callbacks from running after the book has gone.
  Lifetime here_;
};

}  // namespace gpuyard::usage
