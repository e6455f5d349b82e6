// The known facts of the processes that drivers list. Pure state: it gets lists and lookups, and
// returns the next queries.
//
// The driver lists numbers. A worker looks up new processes (user, command, container, pod, Slurm
// job, unit) and reads one file of each of the rest. The key of a process is its number and its
// start time. A process that started after the list was made is not the one listed. A number that
// is not visible, or of another PID namespace, or of a recording, is unknown with a reason, never a
// guess.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "core/processes/process_reader.h"
#include "gpu/device/process.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::processes {

// One process to look up.
struct ProcessQuery {
  std::uint32_t pid = 0;
  std::optional<StatSummary> known;  // a process that still looks like this is not read again
};

struct ProcessLookup {
  std::uint32_t pid = 0;
  std::optional<Result<ProcessMetadata>> facts;  // empty: the process looks as before
  std::optional<HostUse> use = {};               // of a process that looks as before
};

class ProcessCache final : public ProcessDirectory {
 public:
  // The most processes that are looked up. Further ones stay unknown.
  static constexpr std::size_t kMaxProcesses = 4096;
  // Facts are trusted for this long before all are read again: the control group and the user of a
  // process may change without a sign.
  static constexpr Duration kMaxFactAge = std::chrono::minutes(1);

  // By process number: the time of the newest list with it.
  using ListTimes = std::map<std::uint32_t, TimePoint>;
  // Takes the newest lists, and removes the processes that are in none.
  void update_lists(const ListTimes&);

  std::vector<ProcessQuery> queries() const;
  void update_facts(std::vector<ProcessLookup>);

  // Returns the users of known processes whose names are not known yet, each once.
  std::vector<std::uint32_t> unnamed_users() const;
  void set_user_name(std::uint32_t uid, const Result<std::string>& name);

  Result<const ProcessMetadata*> find(std::uint32_t pid) const override;
  std::uint64_t revision() const override { return revision_; }

 private:
  struct Entry {
    TimePoint listed_at;
    TimePoint facts_listed_at;  // time of the list that the facts are of
    Result<ProcessMetadata> facts = Error{Errc::unavailable, "not looked up yet"};
  };

  static void accept_facts(Entry&, Result<ProcessMetadata>);
  static void update_usage(ProcessMetadata&, const HostUse& now);

  std::map<std::uint32_t, Entry> entries_;
  std::uint64_t revision_ = 0;
};

// Returns the processes in the GPUs' lists, and when the newest list with each was made.
ProcessCache::ListTimes list_times_of(const Snapshot&);

// The origin of process numbers.
enum class PidOrigin {
  driver,      // a container may have other numbers for the same processes
  simulation,  // always of this PID namespace
  recording,   // other processes may have them by now
};

// `recorded`: the lists come from a recording.
PidOrigin pid_origin_of(const Snapshot&, bool recorded);

// Returns an error if the numbers name no processes in this /proc.
Result<void> check_pid_origin(PidOrigin, const std::string& proc_root);

// Executes the queries. Thread: worker. Blocks on /proc.
std::vector<ProcessLookup> look_up_processes(const ProcessReader&, const std::vector<ProcessQuery>&,
                                             PidOrigin);

// Updates the cache with these lists at once, users' names included: for a program that may
// wait.
void look_up_all(ProcessCache&, const ProcessReader&, const ProcessCache::ListTimes&, PidOrigin);

}  // namespace gpuyard::processes
