// What was used under each lease, as the daemon keeps it: reads afresh where a lease begins and
// ends, and keeps the books. Lives on the io thread.
//
// UseCount cuts each GPU's time into stretches, each of one lease or of none, and every growth of
// the GPU's energy account along them: each millijoule is one lease's or nobody's. What was used
// while the daemon was down is no lease's. A growth that began under one holder and ended under
// another is shared by time. There is a row for each day in UTC, lease and GPU; it is kept when the
// lease is over, and every minute. A question takes with it what is not written yet, and writes
// nothing.
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
#include "device/device.h"
#include "usage/use_books.h"
#include "usage/use_count.h"

namespace gpuyard::usage {

// Who reads the GPUs at this moment. The answer comes in any case, and never inside the call.
class UseReads {
 public:
  virtual ~UseReads() = default;
  virtual void fresh(std::function<void(const UseReadings&)> done) = 0;
};

class UseBook {
 public:
  // So much is lost at most if this process is killed; of a lease that is over, nothing.
  static constexpr Duration kKeepEvery = std::chrono::seconds(60);
  // Books that could not be read are asked for again.
  static constexpr Duration kRetry = std::chrono::seconds(5);
  // So many rows wait for a disk that fails; then the oldest are lost, and it is said so.
  static constexpr std::size_t kMostUnkept = 100'000;
  // Questions at a time: grants wait behind them for the same disk.
  static constexpr std::size_t kMostAsking = 2;

  using Answer = std::function<void(Result<UseAnswer>)>;

  // What is known of leases at the start.
  struct Found {
    std::vector<Holding> held = {};
    std::set<std::string> over = {};  // not long ago
    Day since;                        // the first day of any of them
    bool simulated = false;
  };

  // These outlive it.
  UseBook(Loop&, UseReads&, UseArchive&);

  // Readings may come before, and are where counting begins.
  void open(Found);
  bool is_open() const { return count_.is_open(); }
  // Keeps all once more.
  void stop();

  void begin(const Holding&);
  void end(std::string_view lease, TimePoint at);
  void observe(const UseReadings&);

  // Nothing: not a lease that had GPUs within the last day.
  std::optional<Use> of(std::string_view lease) const { return count_.of(lease, loop_.now()); }
  // Over all leases, up to the last reading. Errc::unavailable: the books cannot be read now.
  void ask(const UseQuestion&, Answer);
  bool simulated() const { return found_.simulated; }
  // What is not as it should be, for people.
  std::vector<std::string> notes() const;

 private:
  using Key = std::tuple<Day, std::string, std::uint64_t, DeviceId>;

  void load();
  void tick();
  void read_edge();
  void collect(std::vector<UseRow>);
  void keep();
  void on_kept(const UseEntry&, const Result<void>&);
  std::vector<UseRow> unkept() const;

  Loop& loop_;
  UseReads& reads_;
  UseArchive& archive_;
  UseCount count_;
  Found found_;
  bool restored_ = false;
  bool keeping_ = false;
  std::size_t lost_ = 0;
  std::map<Key, UseRow> unkept_;
  std::vector<UseRow> to_fold_;  // which are kept
  Subscription timer_;
  Subscription retry_;
  // Callbacks that come after the book has gone find this empty.
  std::size_t asking_ = 0;
  Lifetime here_;
};

}  // namespace gpuyard::usage
