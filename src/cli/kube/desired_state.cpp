#include "cli/kube/desired_state.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "cli/kube/object_names.h"
#include "cli/read/check.h"

namespace gpuyard::cli::kube {
namespace {

using protocol::GpuVerdict;
using protocol::GpuVerdicts;

// As in check_of(): an alert whose driver is back is about to end.
bool is_driver_down(const GpuVerdicts& verdicts) {
  return verdicts.driver_down && verdicts.driver_error;
}

// The rule of the bad GPU with the lowest index, so that the reason of one alert stays while others
// come and go behind it.
std::string bad_reason(const GpuVerdicts& verdicts) {
  if (is_driver_down(verdicts)) return "DriverDown";
  const GpuVerdict* first = nullptr;
  for (const GpuVerdict& gpu : verdicts.gpus) {
    if (gpu.verdict == Verdict::bad && (first == nullptr || gpu.index < first->index)) first = &gpu;
  }
  const std::string reason = first != nullptr ? camel_case(first->rule.value_or("")) : "";
  return reason.empty() ? "GPUsBad" : reason;
}

std::string unknown_reason(const GpuVerdicts& verdicts) {
  if (verdicts.driver_error) return "NoDriver";
  return verdicts.count == 0 && verdicts.gpus.empty() ? "NoGPUs" : "GPUsUnknown";
}

ConditionText condition_of(const GpuVerdicts& verdicts) {
  const CheckResult check = check_of(verdicts);
  ConditionText text;
  text.message = shortened(printable(check.text), kMaxMessageBytes);
  switch (check.status) {
    case CheckStatus::ok:
      text.status = ConditionStatus::yes;
      text.reason = "GPUsGood";
      break;
    case CheckStatus::warning:
      text.status = ConditionStatus::yes;
      text.reason = "GPUsCordoned";
      break;
    case CheckStatus::critical:
      text.status = ConditionStatus::no;
      text.reason = bad_reason(verdicts);
      break;
    case CheckStatus::unknown:
      text.reason = unknown_reason(verdicts);
      break;
  }
  return text;
}

DesiredGpu desired_gpu(const GpuVerdict& gpu) {
  DesiredGpu out{gpu.index, gpu.uuid, gpu.verdict};
  if (gpu.verdict == Verdict::bad) {
    out.rule = gpu.rule.value_or("");
    out.message = printable(bad_gpu_text(gpu));
  }
  out.cordoned = gpu.cordoned.has_value();
  out.cordon_reason = printable(gpu.cordoned.value_or(""));
  return out;
}

}  // namespace

bool DesiredGpu::is_lost() const {
  return verdict == Verdict::bad && (rule == "gpu-lost" || rule == "gpu-unresponsive");
}

bool is_silent(const DaemonReport& report, TimePoint now) {
  return now - report.answered_at >= kDaemonTimeout;
}

Desired desired_state(const DaemonReport& report, const FlapRecords& flaps, TimePoint now) {
  if (is_silent(report, now)) {
    return {.condition = ConditionText{ConditionStatus::unknown, "DaemonSilent",
                                       "the daemon of this node does not respond"}};
  }
  if (report.too_old) {
    return {.condition = ConditionText{ConditionStatus::unknown, "DaemonTooOld",
                                       "the daemon is older than this program and has no verdict"}};
  }
  if (!report.verdicts) return {};
  const GpuVerdicts verdicts = count_flapping_as_bad(*report.verdicts, flaps);
  Desired desired;
  desired.condition = condition_of(verdicts);
  desired.is_known = true;
  desired.is_complete = lists_all_gpus(verdicts);
  desired.driver_down = is_driver_down(verdicts);
  for (const GpuVerdict& gpu : verdicts.gpus) desired.gpus.push_back(desired_gpu(gpu));
  std::ranges::sort(desired.gpus, {}, &DesiredGpu::index);
  return desired;
}

}  // namespace gpuyard::cli::kube
