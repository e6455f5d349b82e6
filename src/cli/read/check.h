// The verdicts on a machine's GPUs as one line and an exit code, as monitoring systems expect them
// of the programs that they run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "faces/protocol/verdict.h"

namespace gpuyard::cli {

// The conventions differ in exit codes and in what they have room for.
enum class CheckConvention : std::uint8_t {
  nagios,  // Nagios, Icinga, Sensu, checkmk
  npd,     // Kubernetes' node-problem-detector
};

// In the order of Nagios' exit codes.
enum class CheckStatus : std::uint8_t { ok, warning, critical, unknown };

struct CheckResult {
  CheckStatus status = CheckStatus::unknown;
  std::string text;  // without a line end
  std::size_t good = 0;
  std::size_t bad = 0;
  std::size_t unknown = 0;
  std::size_t cordoned = 0;
};

inline constexpr std::size_t kMaxNagiosBytes = 1000;
// node-problem-detector cuts a message at its max_output_length, which is 80 unless it is set.
inline constexpr std::size_t kMaxNpdBytes = 80;

// A bad GPU is critical, a cordoned one a warning. What is not known is never ok.
CheckResult check_of(const protocol::GpuVerdicts&);
CheckResult failed_check(const Error&);

// The message of a bad GPU's alert and the advice, as in "GPU 2: Xid 79. Reset the GPU."
std::string bad_gpu_text(const protocol::GpuVerdict&);

// Returns the line, and the exit code: of Nagios 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN; of
// node-problem-detector 0 well, 1 not well, 2 unknown.
std::string check_line(const CheckResult&, CheckConvention);
int check_exit_code(CheckStatus, CheckConvention);

// Cuts a longer text between two characters, and ends it with "...".
std::string shortened(std::string text, std::size_t bytes);

}  // namespace gpuyard::cli
