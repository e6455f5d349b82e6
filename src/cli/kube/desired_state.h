// What a cluster should know of this node's GPUs, from the daemon's verdicts alone. Pure; knows
// nothing of the API server. plan.h compares it with what the cluster knows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/kube/flapping.h"
#include "faces/protocol/verdict.h"

namespace gpuyard::cli::kube {

// A daemon that has not answered for this long knows nothing of its GPUs any longer.
inline constexpr Duration kDaemonTimeout = std::chrono::seconds(30);
inline constexpr std::size_t kMaxMessageBytes = 1000;  // of the condition

// The latest answer of the daemon.
struct DaemonReport {
  std::optional<protocol::GpuVerdicts> verdicts = {};  // empty: none yet
  TimePoint answered_at{};  // the moment of that answer; without one, of the agent's start
  bool too_old = false;     // the daemon answers, and does not have the route
};

enum class ConditionStatus : std::uint8_t { yes, no, unknown };  // "True", "False", "Unknown"

struct ConditionText {
  ConditionStatus status = ConditionStatus::unknown;
  std::string reason;   // "XidFatal"
  std::string message;  // at most kMaxMessageBytes

  friend bool operator==(const ConditionText&, const ConditionText&) = default;
};

struct DesiredGpu {
  std::uint32_t index = 0;
  std::string uuid;
  Verdict verdict = Verdict::unknown;
  std::string rule = {};  // of a bad GPU
  bool cordoned = false;
  std::string message = {};        // of a bad GPU: its alert and the advice
  std::string cordon_reason = {};  // as the administrator gave it

  // A GPU that the driver does not reach makes NVIDIA's device plugin refuse every GPU pod of the
  // node.
  bool is_lost() const;

  friend bool operator==(const DesiredGpu&, const DesiredGpu&) = default;
};

struct Desired {
  std::optional<ConditionText> condition = {};  // empty: nothing is known yet, and none is written
  // False: the daemon is silent. No taint and no rule is added, changed or removed.
  bool is_known = false;
  bool is_complete = false;  // every GPU of the machine is in `gpus`
  bool driver_down = false;  // every GPU is bad, also those that are not in `gpus`
  std::vector<DesiredGpu> gpus = {};
};

bool is_silent(const DaemonReport&, TimePoint now);

// REQUIRES: record_verdicts() or, for a silent daemon, record_silence() was called for the report.
Desired desired_state(const DaemonReport&, const FlapRecords&, TimePoint now);

}  // namespace gpuyard::cli::kube
