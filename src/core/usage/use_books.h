// What was used under leases, as it is kept: a row for each day, lease and GPU; and who keeps it.
// Plain values.
#pragma once

#include <boost/describe.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>
#include "base/clock.h"
#include "base/result.h"
#include "device/device.h"

namespace gpuyard::usage {

using Day = std::chrono::sys_days;  // in UTC

// What was used of one GPU.
struct Tally {
  Duration held{};
  Duration counted{};  // of that, the time whose energy is known
  std::int64_t energy_mj = 0;
  std::int64_t estimated_mj = 0;  // of that, what no counter counted, or not so finely
  Duration watched{};             // of `held`, the time whose utilisation is known
  std::int64_t busy_ns = 0;       // utilisation over that time: percent x nanoseconds
  std::optional<std::int64_t> peak_bytes = {};  // of memory

  void add(const Tally&);
  friend bool operator==(const Tally&, const Tally&) = default;
};

struct UseRow {
  Day day;
  std::string lease;  // "": under no lease
  DeviceId gpu;
  std::uint32_t uid = 0;
  bool simulated = false;
  Tally tally = {};
  // An id may be another lease's once it is forgotten; its fence never is. 0: of a row from before
  // it was kept, or of none.
  std::uint64_t fence = 0;
  // Of a lease that is over and used next to nothing: once it is kept, it is made part of the row
  // of all such leases of its user. Its first row counts as a lease there, its others as none.
  std::optional<std::int64_t> folds_as = {};

  friend bool operator==(const UseRow&, const UseRow&) = default;
};

enum class UseBy : std::uint8_t { user, day, gpu, lease };
BOOST_DESCRIBE_ENUM(UseBy, user, day, gpu, lease)

struct UseQuestion {
  UseBy by = UseBy::user;
  Day since;
  bool simulated = false;

  friend bool operator==(const UseQuestion&, const UseQuestion&) = default;
};

struct UseSum {
  std::string key;                        // uid, "2026-01-31", UUID or lease
  std::optional<std::uint32_t> uid = {};  // by user and by lease
  double held_s = 0;                      // of all GPUs
  double counted_s = 0;
  std::int64_t energy_mj = 0;
  std::int64_t estimated_mj = 0;
  std::optional<double> mean_utilization_percent = {};
  std::optional<std::int64_t> peak_bytes = {};  // on one GPU
  std::int64_t leases = 0;

  friend bool operator==(const UseSum&, const UseSum&) = default;
};

struct UseAnswer {
  // So many sums are told, those of most GPU time; how many are not, is.
  static constexpr std::size_t kMost = 10'000;

  std::vector<UseSum> sums;  // most time first; days in order
  std::int64_t left_out = 0;
  UseSum unleased = {};

  friend bool operator==(const UseAnswer&, const UseAnswer&) = default;
};

struct UseEntry {
  std::vector<UseRow> rows = {};  // each in the place of what was kept of that day, lease and GPU
  // Rows that are kept, and become part of a row that their users' small leases share: asking for
  // it once more changes nothing.
  std::vector<UseRow> folds = {};
  std::set<std::string> growing = {};  // leases of which more may come: nothing of them is folded
};

// Lives on the io thread, and does its work elsewhere. What is asked for first is done first.
// False, and nothing happens: too much waits already. A callback never runs inside the call it was
// given to.
class UseArchive {
 public:
  virtual ~UseArchive() = default;

  // So many days on which something was counted are kept: by their number, so that a clock that
  // is wrong forgets no more of them than it makes.
  static constexpr std::chrono::days kKeptFor{400};

  // The rows of these leases and of none, from a day on.
  virtual bool load(Day since, std::set<std::string> leases,
                    std::function<void(Result<std::vector<UseRow>>)> loaded) = 0;
  // What is too old is forgotten, and of what is too much that is over old rows become one.
  virtual bool save(UseEntry, std::function<void(const Result<void>&)> saved) = 0;
  // As if `unkept` were saved, which it is not.
  virtual bool ask(UseQuestion, std::vector<UseRow> unkept,
                   std::function<void(Result<UseAnswer>)> answered) = 0;
  // What a person should know about what is kept, in sentences.
  virtual std::vector<std::string> notes() const = 0;
};

}  // namespace gpuyard::usage
