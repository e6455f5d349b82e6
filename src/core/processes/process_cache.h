// The known facts of the processes that drivers list. Pure state on the io thread: it is told lists
// and findings, and says what to find out next.
//
// The driver lists numbers. A worker looks up new processes (user, command, container, pod, Slurm
// job, unit) and glances at the rest, one file each. The key of a process is its number and its
// start time. A process that started after the list was made is not the one listed. A number that
// is not visible, or of another PID namespace, or of a recording, is unknown with a reason, never a
// guess.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/worker.h"
#include "core/processes/process_reader.h"
#include "gpu/device/process.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::processes {

// One process to look up.
struct Question {
  std::uint32_t pid = 0;
  std::optional<Glance> known;  // a process that still looks like this is not read again
};

struct Finding {
  std::uint32_t pid = 0;
  std::optional<Result<ProcessMetadata>> facts;  // empty: the process looks as before
  std::optional<HostUse> use = {};               // of a process that looks as before
};

class Owners final : public ProcessDirectory {
 public:
  // How many processes are looked up. Further ones stay unknown.
  static constexpr std::size_t kMost = 4096;
  // How long facts are trusted before all are read anew: the control group and the user of a
  // process may change without a sign.
  static constexpr Duration kTrustedFor = std::chrono::minutes(1);

  // For each process number, when the newest list with it was made.
  using Listed = std::map<std::uint32_t, TimePoint>;
  // Takes the newest lists, and forgets the processes that are in none.
  void listed(const Listed&);

  std::vector<Question> questions() const;
  void found(std::vector<Finding>);

  // Returns the users of known processes whose names are not known yet, each once.
  std::vector<std::uint32_t> nameless_users() const;
  void named(std::uint32_t uid, const Result<std::string>& name);

  Result<const ProcessMetadata*> find(std::uint32_t pid) const override;
  std::uint64_t revision() const override { return revision_; }

 private:
  struct Entry {
    TimePoint listed;
    TimePoint looked_at;  // time of the list that the facts are of
    Result<ProcessMetadata> facts = Error{Errc::unavailable, "not looked up yet"};
  };

  static void take(Entry&, Result<ProcessMetadata>);
  static void note_use(ProcessMetadata&, const HostUse& now);

  std::map<std::uint32_t, Entry> entries_;
  std::uint64_t revision_ = 0;
};

// Returns the processes in the GPUs' lists, and when the newest list with each was made.
Owners::Listed listed_in(const Snapshot&);

// Keeps the book of the processes on the GPUs, from the process lists in snapshots, through a
// worker that reads /proc. Lives on the io thread. If the worker is slow or stuck, the book says
// "not looked up yet" of new processes, and keeps the facts it has.
class OwnerWatch {
 public:
  enum class Listed { now, in_a_recording };
  // The worker outlives this, and runs nothing afterwards.
  OwnerWatch(Worker&, std::string proc_root, Listed);
  ~OwnerWatch();

  void on_snapshot(const Snapshot&);
  const ProcessDirectory& book() const { return owners_; }

 private:
  struct Desk;  // the state that the worker's jobs use

  void ask_facts();
  void ask_names();

  Worker& worker_;
  const Listed when_;
  std::shared_ptr<Desk> desk_;
  Owners owners_;
  Owners::Listed listed_;
  bool simulated_ = false;
  bool wanted_ = false;       // there are questions for the worker
  bool facts_asked_ = false;  // the worker has not answered yet
  bool names_asked_ = false;
};

// The origin of process numbers.
enum class Numbers {
  of_a_driver,     // a container may have other numbers for the same processes
  of_simulation,   // always of this PID namespace
  of_a_recording,  // other processes may have them by now
};

// Returns an error if the numbers name no processes in this /proc.
Result<void> check_numbers(Numbers, const std::string& proc_root);

// Answers the questions; for a worker. Blocks on /proc.
std::vector<Finding> look_up(const ProcessReader&, const std::vector<Question>&, Numbers);

// Reads everything of these processes at once, users' names too: for a program that may wait.
std::unique_ptr<ProcessDirectory> look_up_all(const Owners::Listed&, Numbers);

}  // namespace gpuyard::processes
