// Identifies a process, with a handle that never names another one, and sends signals only to the
// process that was identified.
//
// Thread: any. Each call blocks on /proc, but not for long: it reads only what the kernel keeps
// outside of a process's memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"
#include "core/processes/process_table.h"

namespace gpuyard::processes {

struct IdentifiedProcess {
  ProcessKey process;
  std::uint32_t uid = 0;  // the effective one
  std::uint32_t parent = 0;
  std::string command;
  UniqueFd handle;  // a descriptor that is readable once the process has ended
};

// Takes a number of this PID namespace. Errc::not_found: there is no such process, or it has ended;
// Errc::denied: it is hidden; Errc::unsupported: this kernel has no such handles (before 5.3).
//
// `view_hidden`: views a process that /proc hides from this one; empty: none can.
using HiddenProcessViewer = std::function<Result<ProcessView>(std::uint32_t pid)>;
Result<IdentifiedProcess> identify_process(std::uint32_t pid,
                                           const HiddenProcessViewer& view_hidden = {});

// Errors as above; not_found also if another process has the number by now. Errc::denied if the
// kernel refuses, or if `is_allowed_uid` rejects the user of the process, even if this program runs
// as root; an empty one accepts all users.
Result<void> send_signal(const ProcessKey&, int number,
                         const std::function<bool(std::uint32_t uid)>& is_allowed_uid = {});

// Returns whether the kernel lets this process signal those of the user: its own, or with CAP_KILL
// all.
bool can_signal(std::uint32_t uid);

// Process numbers have the same meaning within one PID namespace of one boot of one machine.
struct PidNamespaceId {
  std::string boot_id;        // "": unknown
  std::string pid_namespace;  // "pid:[4026531836]"; "": unknown

  // An unknown namespace matches none.
  bool matches(const PidNamespaceId& other) const {
    return !boot_id.empty() && !pid_namespace.empty() && boot_id == other.boot_id &&
           pid_namespace == other.pid_namespace;
  }
};
// Returns the PID namespace of this process.
PidNamespaceId own_pid_namespace();

// Checks that a number from the driver names the same process here. Drivers number processes as the
// host does, or as the caller's namespace does, depending on the driver. Outside of containers both
// are the same. Inside, another process may have the number here: Errc::unsupported, unless
// `proc_root` is not the default.
Result<void> check_pid_namespace(const std::string& proc_root);

// Takes the target of the link /proc/self/ns/pid.
bool is_initial_pid_namespace(std::string_view link);

}  // namespace gpuyard::processes
