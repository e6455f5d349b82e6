// Which leases a process belongs to. Pure: it judges what was read of /proc, and never guesses.
//
// A process is a lease's own if it is one that the lease knows; or one of these started it,
// however many processes stand between; or its environment names the lease and it is the lease's
// user's alone; or the first process of its container is the lease's own. Of a process that a
// driver lists on a GPU of the lease it is enough that its environment names the lease, or that of
// the first process of its container: in a container everybody may be root. Off the GPUs that is
// not enough: a setuid program that waits for a password has the environment of whoever started it.
// So the way to lease GPUs for a container is to give it the variable (docker run -e
// GPUYARD_LEASE): what its label says stands in files of the container's runtime, which only root
// may read and which each runtime keeps elsewhere.
//
// A process whose parent ended is its reaper's child: what a lease's process left behind on purpose
// is known by its environment, by `gpuyard run`, which is such a reaper, or because it was seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "processes/process_reader.h"

namespace gpuyard::processes {

// What shows which lease a process belongs to, beyond who started it: its environment, its user,
// its container. Every call here blocks on /proc.

// The variable that says for which lease a process runs.
inline constexpr std::string_view kLeaseVariable = "GPUYARD_LEASE";
// So much of an environment is looked at.
inline constexpr std::size_t kMostEnvironmentBytes = std::size_t{256} * 1024;

struct Traces {
  std::uint32_t uid = 0;  // the effective one
  // Its real and saved ones are the same: else its environment may be that of whoever started it.
  bool one_user = true;
  // What its environment was when it began to run its program; "" too where that is hidden, as it
  // is from everybody but root and the process's own user, and of a program that is being loaded
  // for longer than anybody waits.
  std::string marked = {};
  std::optional<std::string> container = {};
  bool leads_container = false;

  friend bool operator==(const Traces&, const Traces&) = default;
};

// One that a driver lists.
struct GpuUser {
  ProcessKey process;
  std::uint32_t parent = 0;
  std::string command = {};
  Traces traces = {};

  friend bool operator==(const GpuUser&, const GpuUser&) = default;
};

// Errc::not_found: no such process is visible; Errc::denied: it is hidden.
Result<GpuUser> read_gpu_user(const std::string& proc_root, std::uint32_t pid);
// Of a row of a table.
Result<Traces> read_traces(const std::string& proc_root, const ProcessRow&);

// The lease that an environment names.
std::string mark_in(std::string_view environment);

// Which processes name a lease in their environment. Remembers who does not, so that asking often
// costs little.
class Marks {
 public:
  // An environment is a new one when a process begins to run another program: which is seen by its
  // command, or happens when it is young.
  static constexpr Duration kYoung = std::chrono::seconds(10);

  explicit Marks(std::string proc_root) : proc_root_(std::move(proc_root)) {}

  // By number, of those that started since then and live.
  std::map<std::uint32_t, std::string> read(const ProcessTable&, TimePoint since, TimePoint now);

 private:
  struct Known {
    TimePoint started;
    std::string command;
    std::string mark;
  };

  std::string proc_root_;
  std::map<std::uint32_t, Known> known_;
};

// A lease, as far as it matters here.
struct Lessee {
  std::string lease;
  std::uint32_t uid = 0;
  std::vector<ProcessKey> known = {};
  bool whole_user = false;  // whatever its user runs on its GPUs is its own
};

// What was read.
struct Evidence {
  // Of this PID namespace, as are the processes that leases know.
  Result<ProcessTable> table = Error{Errc::unavailable, "not read yet"};
  // Of those in the table whose environment names a lease.
  std::map<std::uint32_t, Traces> traces = {};
  // Processes that a driver lists, by its numbers; or why nothing can be known of one.
  std::map<std::uint32_t, Result<GpuUser>> gpu_users = {};
  bool same_numbers = true;  // the driver's are those of this namespace
};

class Membership {
 public:
  // No chain of parents is longer.
  static constexpr std::size_t kDeepest = 1024;

  // These outlive it.
  Membership(const std::vector<Lessee>&, const Evidence&);

  // Its own processes that live; and those it knows of which that cannot be told.
  std::vector<ProcessKey> alive(std::size_t lessee) const;

  // Of one on a GPU of the lease: whether it is the lease's own; nothing if that cannot be told.
  std::optional<bool> has(std::size_t lessee, const Result<GpuUser>&) const;

 private:
  using Lessees = std::vector<bool>;  // by place

  void settle();
  void settle_chain(const ProcessRow& lowest);
  void settle_containers();
  void add_known(const ProcessKey&, Lessees&) const;
  enum class Where : std::uint8_t { anywhere, on_its_gpu };
  void add_marked(const Traces&, Where, Lessees&) const;
  const Lessees& of(std::uint32_t pid) const;
  Lessees of_parent(std::uint32_t parent, const ProcessKey& child) const;

  const std::vector<Lessee>& lessees_;
  const Evidence& evidence_;
  const Lessees none_;
  std::map<ProcessKey, Lessees> known_;
  std::map<std::uint32_t, Lessees> own_;                // of processes in the table, by number
  std::map<std::string, Lessees> of_containers_;        // whose first process is somebody's
  std::map<std::string, Lessees> named_by_containers_;  // by the environment of their first process
};

}  // namespace gpuyard::processes
