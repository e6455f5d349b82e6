// The stored use under leases, a row for each day, lease and GPU, and the storage for it.
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
#include "gpu/device/device.h"

namespace gpuyard::usage {

using Day = std::chrono::sys_days;  // in UTC

// The use of one GPU.
struct UsageCounters {
  Duration held{};
  Duration counted{};  // the part of `held` whose energy is known
  std::int64_t energy_mj = 0;
  std::int64_t estimated_mj = 0;  // the part of it that no counter counted, or not so finely
  Duration watched{};             // the part of `held` whose utilisation is known
  std::int64_t busy_ns = 0;       // utilisation over that time: percent x nanoseconds
  std::optional<std::int64_t> peak_bytes = {};  // of memory

  void add(const UsageCounters&);
  friend bool operator==(const UsageCounters&, const UsageCounters&) = default;
};

struct UsageRow {
  Day day;
  std::string lease;  // "": no lease
  DeviceId gpu;
  std::uint32_t uid = 0;
  bool simulated = false;
  UsageCounters counters = {};
  // The id of an evicted lease may be given to another one; a fence never is. 0: a row from before
  // fences were stored, or of no lease.
  std::uint64_t fence = 0;
  // Set for a lease that is over and used next to nothing: once saved, the row becomes part of one
  // row for all such leases of its user. It adds this many leases: 1 for a lease's first row, else
  // 0.
  std::optional<std::int64_t> compacted_leases = {};
  std::string pod = {};  // "default/trainer-0", whose lease it is; "" of all other leases

  friend bool operator==(const UsageRow&, const UsageRow&) = default;
};

enum class UsageGrouping : std::uint8_t {
  user,
  day,
  gpu,
  lease,
  slurm_job,  // all runs of a job together; leases of no job have the key ""
  pod,        // all leases of a pod together, of whatever GPUs; leases of no pod have the key ""
  pod_namespace,  // likewise
};
BOOST_DESCRIBE_ENUM(UsageGrouping, user, day, gpu, lease, slurm_job, pod, pod_namespace)

struct UsageQuery {
  UsageGrouping grouping = UsageGrouping::user;
  Day since;
  bool simulated = false;

  friend bool operator==(const UsageQuery&, const UsageQuery&) = default;
};

struct UsageTotal {
  // A uid, "2026-01-31", UUID, lease, number of a job, "NAMESPACE/POD" or namespace.
  std::string key;
  std::optional<std::uint32_t> uid = {};  // only in sums by user, lease and job
  double held_s = 0;                      // of all GPUs
  double counted_s = 0;
  std::int64_t energy_mj = 0;
  std::int64_t estimated_mj = 0;
  std::optional<double> mean_utilization_percent = {};
  std::optional<std::int64_t> peak_bytes = {};  // on one GPU
  std::int64_t leases = 0;

  friend bool operator==(const UsageTotal&, const UsageTotal&) = default;
};

struct UsageReport {
  // The most sums that are returned: those with the most GPU time. `left_out` counts the rest.
  static constexpr std::size_t kMaxTotals = 10'000;

  std::vector<UsageTotal> totals;  // most GPU time first; days in order
  std::int64_t left_out = 0;
  UsageTotal unleased = {};

  friend bool operator==(const UsageReport&, const UsageReport&) = default;
};

struct UsageTransaction {
  std::vector<UsageRow> rows = {};  // each replaces the stored row of that day, lease and GPU
  // Stored rows that become part of the row that all small leases of their user share. Compacting a
  // row once more changes nothing.
  std::vector<UsageRow> rows_to_compact = {};
  // Leases that may get more rows: none of theirs is compacted.
  std::set<std::string> growing_leases = {};
};

// Keeps rows on the disk.
//
// Thread: io; the work is done elsewhere, in the order of the calls. A call returns false, and does
// nothing, if too much waits already. A callback never runs inside the call it was given to.
class UsageStorage {
 public:
  virtual ~UsageStorage() = default;

  // The number of days with rows that are kept. They are counted, so that a clock that is wrong
  // prunes no more days than it makes.
  static constexpr std::chrono::days kRowRetention{400};

  // Loads the rows of these leases, and of no lease, from a day on.
  virtual bool load(Day since, std::set<std::string> leases,
                    std::function<void(Result<std::vector<UsageRow>>)> on_loaded) = 0;
  // Saves the transaction. Also prunes rows that are too old, and, if there are too many, merges
  // old rows of ended leases into one.
  virtual bool save(UsageTransaction, std::function<void(const Result<void>&)> on_saved) = 0;
  // Queries as if `unsaved` were saved, but does not save it.
  virtual bool query(UsageQuery, std::vector<UsageRow> unsaved,
                     std::function<void(Result<UsageReport>)> on_result) = 0;
  // Describes the state of the stored rows, for people, in sentences.
  virtual std::vector<std::string> notes() const = 0;
};

}  // namespace gpuyard::usage
