// Who the listed processes are, as far as it was found out. Pure state on the io thread: it is told
// lists and findings, and says what to find out next.
//
// The driver lists numbers. A worker looks up what is new in a list (user, command, container, pod,
// Slurm job, unit) and glances at the rest, one file each. The key of a process is its number and
// its start time. A process that started after the list was made is not the one listed. A number
// that is not visible, or of another PID namespace, or of a recording, is unknown with a reason,
// never a guess.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/worker.h"
#include "device/process.h"
#include "device/snapshot.h"
#include "processes/process_reader.h"

namespace gpuyard::processes {

// What to find out of one process.
struct Question {
  std::uint32_t pid = 0;
  std::optional<Glance> known;  // all of it, unless it still looks like this
};

struct Finding {
  std::uint32_t pid = 0;
  std::optional<Result<ProcessFacts>> facts;  // empty: it looks as it is known
};

class Owners final : public ProcessBook {
 public:
  // More are listed, but not looked up.
  static constexpr std::size_t kMost = 4096;
  // Its control group and its user may change without a sign: then everything is asked anew.
  static constexpr Duration kTrustedFor = std::chrono::minutes(1);

  // By number, when the newest list with it was made. What is in no list any more is forgotten.
  using Listed = std::map<std::uint32_t, TimePoint>;
  void listed(const Listed&);

  std::vector<Question> questions() const;
  void found(std::vector<Finding>);

  // Users of known processes without a name yet, each once.
  std::vector<std::uint32_t> nameless_users() const;
  void named(std::uint32_t uid, const Result<std::string>& name);

  Result<const ProcessFacts*> find(std::uint32_t pid) const override;
  std::uint64_t revision() const override { return revision_; }

 private:
  struct Entry {
    TimePoint listed;
    TimePoint looked_at;  // which list the facts are of
    Result<ProcessFacts> facts = Error{Errc::unavailable, "not looked up yet"};
  };

  static void take(Entry&, Result<ProcessFacts>);

  std::map<std::uint32_t, Entry> entries_;
  std::uint64_t revision_ = 0;
};

// Keeps the book of who uses the GPUs: from the process lists in snapshots, through a worker that
// reads /proc.

// Which processes the GPUs' lists name, and when the newest list was made that names each.
Owners::Listed listed_in(const Snapshot&);

// On the io thread. The worker may be slow or stuck: then the book says "not looked up yet" of what
// is new, and keeps what it knew.
class OwnerWatch {
 public:
  enum class Listed { now, in_a_recording };
  // The worker outlives this, and runs nothing afterwards.
  OwnerWatch(Worker&, std::string proc_root, Listed);
  ~OwnerWatch();

  void on_snapshot(const Snapshot&);
  const ProcessBook& book() const { return owners_; }

 private:
  struct Desk;  // what the jobs stand on

  void ask_facts();
  void ask_names();

  Worker& worker_;
  const Listed when_;
  std::shared_ptr<Desk> desk_;
  Owners owners_;
  Owners::Listed listed_;
  bool simulated_ = false;
  bool wanted_ = false;       // something is to be found out
  bool facts_asked_ = false;  // and nothing was heard yet
  bool names_asked_ = false;
};

// Finding things out about processes: the work itself, for a worker or for a program that may wait.

// Whose process ids they are.
enum class Numbers {
  of_a_driver,     // a container may know the same processes by others
  of_simulation,   // they are always ours
  of_a_recording,  // they may be anybody's by now
};

// Why they name nobody there, if that is so.
Result<void> check_numbers(Numbers, const std::string& proc_root);

// Blocks on /proc.
std::vector<Finding> look_up(const ProcessReader&, const std::vector<Question>&, Numbers);

// Everything of these processes at once, users' names too: for a program that may wait.
std::unique_ptr<ProcessBook> look_up_all(const Owners::Listed&, Numbers);

}  // namespace gpuyard::processes
