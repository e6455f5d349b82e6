// Who a process is now, with a handle that never names another; and signals to processes that are
// still who they were. Blocks on /proc, though not for long: of a process only what the kernel
// keeps outside of its memory is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"
#include "processes/process_reader.h"

namespace gpuyard::processes {

struct IdentifiedProcess {
  ProcessKey process;
  std::uint32_t uid = 0;  // the effective one
  std::uint32_t parent = 0;
  std::string command;
  UniqueFd handle;  // readable when it is gone
};

// By its number in this PID namespace. Errc::not_found: there is none, or it has ended;
// Errc::denied: it is hidden; Errc::unsupported: this kernel has no such handles (before 5.3).
Result<IdentifiedProcess> identify(std::uint32_t pid);

// Errors as above; not_found also where the number is another's by now. `only_of`: Errc::denied
// where it runs as anybody else, root for one.
Result<void> send_signal(const ProcessKey&, int number,
                         std::optional<std::uint32_t> only_of = std::nullopt);

// Whether a number that the driver gives names the same process here.

// Drivers number processes as the host does, or as the namespace of whoever asks does, depending on
// the driver. Both are the same outside of containers. Inside, the process here that has the number
// may be another one: Errc::unsupported, unless somebody named the /proc to look in.
Result<void> check_pid_namespace(const std::string& proc_root);

// Of what /proc/self/ns/pid links to.
bool is_first_pid_namespace(std::string_view link);

}  // namespace gpuyard::processes
