// What shows which lease a process belongs to, beyond who started it: its environment, its user,
// its container. Every call here blocks on /proc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "processes/process_table.h"

namespace gpuyard::processes {

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

}  // namespace gpuyard::processes
