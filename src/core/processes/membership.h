// Decides which leases a process belongs to. Pure: uses only what was read of /proc, never guesses.
//
// A process belongs to a lease in four cases: the lease knows it; a process of the lease started
// it, directly or through others; its environment names the lease, and it runs only as the lease's
// user; or the first process of its container belongs to the lease, and its environment names one.
// The uids of one range in /etc/subuid are one user.
//
// A process in a container may run as any uid, including 0. A containerised process that the driver
// lists on a GPU of the lease therefore also belongs to it if its environment, or that of the
// container's first process, names the lease. For other processes this is not enough, because a
// setuid program that waits for a password has the environment of the user who started it.
//
// Any user may put any lease into an environment, and may name a control group like that of a
// container. A container is therefore identified by its group's path, not by the id in its name. It
// can belong only to leases of the user who created the group, unless root did, as the daemons of
// Docker and Kubernetes do. If the maker is unknown, its processes are neither members nor
// unleased.
//
// To lease GPUs for a container, the user passes it the variable (docker run -e GPUYARD_LEASE). A
// container label would not work: only root may read the files of the container runtime, and each
// runtime stores them elsewhere.
//
// A process whose parent ended becomes its reaper's child. A process that a lease's process left
// behind on purpose is recognised by its environment, by `gpuyard run`, which is such a reaper, or
// because it was seen before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/processes/cgroup.h"
#include "core/processes/process_table.h"

namespace gpuyard::processes {

// The container of a process.
struct Container {
  Group group;
  std::optional<std::uint32_t> maker = {};  // the user who created the group; empty: unknown

  friend bool operator==(const Container&, const Container&) = default;
};

// The signs of a process's lease, beside its parents: its environment, its user, its container.
struct ProcessTraits {
  std::uint32_t uid = 0;  // the effective one
  // The real and saved ones are the same. If not, its environment may be that of another user.
  bool one_user = true;
  // The lease that its environment named when it began to run its program. Also "" if the
  // environment is hidden, as it is from all but root and the process's own user, and if its
  // program takes too long to load.
  std::string marked_lease = {};
  bool mark_known = true;  // false: it may name a lease, and that cannot be read now
  std::optional<Container> container = {};
  bool is_container_init = false;  // it is the container's first process

  friend bool operator==(const ProcessTraits&, const ProcessTraits&) = default;
};

// A process that a driver lists.
struct GpuUser {
  ProcessKey process;
  std::uint32_t parent = 0;
  std::string command = {};
  ProcessTraits traits = {};  // without its mark, until that is read
  bool in_kernel = false;     // waits inside the kernel, and its memory cannot be read
  bool in_job = false;        // its control group is that of a Slurm job or a Kubernetes pod

  friend bool operator==(const GpuUser&, const GpuUser&) = default;
};

GpuUser gpu_user_of(ProcessView, const MakerLookup&);

// Errors as view_process().
Result<GpuUser> read_gpu_user(const std::string& proc_root, std::uint32_t pid,
                              const MakerLookup& = maker_by_path);

// The part of a lease that membership needs.
struct LeaseProcesses {
  std::string lease;
  std::uint32_t uid = 0;
  std::vector<ProcessKey> known = {};
  bool whole_user = false;  // all that its user runs on its GPUs belongs to it
  bool whole_gpu = false;   // all that runs on its GPUs does
};

// All that was read of /proc for one decision.
struct Evidence {
  // The processes of this PID namespace, which the known processes of leases are of too.
  Result<ProcessTable> table = Error{Errc::unavailable, "not read yet"};
  // The traits of processes in the table whose environment names a lease.
  std::map<std::uint32_t, ProcessTraits> traits = {};
  // The processes that a driver lists, by its numbers; an error if nothing can be known of one.
  std::map<std::uint32_t, Result<GpuUser>> gpu_users = {};
  bool same_pids = true;  // the driver's numbers are those of this namespace
  // Maps a uid to its user, who may own several uids; if empty, each uid is its own user.
  std::function<std::uint32_t(std::uint32_t uid)> quota_owner = {};
};

class Membership {
 public:
  // The longest chain of parents that is followed.
  static constexpr std::size_t kMaxParentDepth = 1024;

  // The leases and the evidence outlive the membership.
  Membership(const std::vector<LeaseProcesses>&, const Evidence&);

  // Returns the lease's living processes, and its known ones of which nothing can be read.
  std::vector<ProcessKey> live_processes(std::size_t lease_index) const;
  // Returns the processes among these that belong to the lease only because the first process of
  // their container does, and their descendants. They belong to it only while that process lives.
  std::vector<ProcessKey> live_by_container(std::size_t lease_index) const;

  // Returns whether a process on a GPU of the lease belongs to it; nothing if that is not known.
  std::optional<bool> contains(std::size_t lease_index, const Result<GpuUser>&) const;

 private:
  using LeaseSet = std::vector<bool>;  // by lease index
  using ByPid = std::map<std::uint32_t, LeaseSet>;

  void resolve();
  void resolve_chain(const ProcessRow& lowest);
  void resolve_containers();
  void add_known(const ProcessKey&, LeaseSet&) const;
  enum class ProcessLocation : std::uint8_t { anywhere, on_lease_gpu };
  void add_marked(const ProcessTraits&, ProcessLocation, LeaseSet&) const;
  bool is_same_owner(std::uint32_t uid, std::uint32_t other) const;
  bool is_mark_valid(const ProcessTraits&, ProcessLocation, const LeaseProcesses&) const;
  std::optional<bool> can_belong_to(const Container&, const LeaseProcesses&) const;
  bool can_be_marked(const ProcessTraits&, const LeaseProcesses&) const;
  bool is_undecided(const ProcessTraits&, std::size_t lease_index) const;
  const LeaseSet& leases_of(std::uint32_t pid) const { return find(leases_by_pid_, pid); }
  const LeaseSet& find(const ByPid&, std::uint32_t pid) const;
  LeaseSet leases_of_parent(std::uint32_t parent, const ProcessKey& child) const;

  const std::vector<LeaseProcesses>& leases_;
  const Evidence& evidence_;
  const LeaseSet no_leases_;
  std::map<ProcessKey, LeaseSet> known_processes_;
  ByPid leases_by_pid_;                             // of processes in the table
  ByPid leases_without_containers_;                 // the same, ignoring containers
  std::map<Group, LeaseSet> leases_of_containers_;  // of the first processes, by container
  // The leases named in the environments of the first processes.
  std::map<Group, LeaseSet> leases_named_by_containers_;
};

}  // namespace gpuyard::processes
