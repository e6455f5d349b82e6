// Who uses a GPU, as its driver lists them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "device/missing.h"

namespace gpuyard {

enum class ProcessKind : std::uint8_t { compute, graphics, compute_and_graphics };
BOOST_DESCRIBE_ENUM(ProcessKind, compute, graphics, compute_and_graphics)

// What the driver does not tell is empty, never 0.
struct GpuProcess {
  std::uint32_t pid = 0;  // as the driver sees it: a container may know it by another
  ProcessKind kind = ProcessKind::compute;
  std::optional<std::int64_t> memory_bytes;
  std::optional<std::int64_t> sm_percent;  // of the GPU, since the list was read before

  friend bool operator==(const GpuProcess&, const GpuProcess&) = default;
};
BOOST_DESCRIBE_STRUCT(GpuProcess, (), (pid, kind, memory_bytes, sm_percent))

// The list is cut here, the users of most memory first; the rows processes_compute and
// processes_graphics count them all.
inline constexpr std::size_t kMaxListedProcesses = 1024;

struct ProcessList {
  TimePoint taken;  // just before the driver was asked
  std::variant<Missing, std::vector<GpuProcess>> value;

  const std::vector<GpuProcess>* processes() const {
    return std::get_if<std::vector<GpuProcess>>(&value);
  }

  friend bool operator==(const ProcessList&, const ProcessList&) = default;
};
BOOST_DESCRIBE_STRUCT(ProcessList, (), (taken, value))

}  // namespace gpuyard
