#include "cli/kube/flapping.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace gpuyard::cli::kube {
namespace {

using protocol::GpuVerdict;

void record_bad(FlapRecord& record, const GpuVerdict& gpu, TimePoint now) {
  record.good_since.reset();
  record.rule = gpu.rule.value_or("");
  record.advice = gpu.advice;
  if (record.is_bad) return;
  record.is_bad = true;
  record.turned_bad_at.push_back(now);
  if (record.turned_bad_at.size() < kFlapTurns) return;
  record.is_flapping = true;
  record.turned_bad_at.erase(record.turned_bad_at.begin(), record.turned_bad_at.end() - kFlapTurns);
}

void record_good(FlapRecord& record, TimePoint now) {
  record.is_bad = false;
  if (!record.good_since) record.good_since = now;
  if (now - *record.good_since >= kQuietTime) record.is_flapping = false;
}

// A moment after now is of another boot, whose clock began anew.
void forget_old(FlapRecord& record, TimePoint now) {
  std::erase_if(record.turned_bad_at,
                [&](TimePoint at) { return at > now || now - at >= kFlapWindow; });
  if (record.good_since && *record.good_since > now) record.good_since.reset();
}

bool has_gpu(const protocol::GpuVerdicts& verdicts, std::string_view uuid) {
  return std::ranges::find(verdicts.gpus, uuid, &GpuVerdict::uuid) != verdicts.gpus.end();
}

}  // namespace

bool lists_all_gpus(const protocol::GpuVerdicts& verdicts) {
  return !verdicts.driver_error && verdicts.count == verdicts.gpus.size();
}

void record_verdicts(FlapRecords& records, const protocol::GpuVerdicts& verdicts, TimePoint now) {
  for (auto& [uuid, record] : records) forget_old(record, now);
  for (const GpuVerdict& gpu : verdicts.gpus) {
    switch (gpu.verdict) {
      case Verdict::bad:
        record_bad(records[gpu.uuid], gpu, now);
        break;
      case Verdict::good:
        if (const auto found = records.find(gpu.uuid); found != records.end()) {
          record_good(found->second, now);
        }
        break;
      case Verdict::unknown:
        if (const auto found = records.find(gpu.uuid); found != records.end()) {
          found->second.good_since.reset();
        }
        break;
    }
  }
  const bool all = lists_all_gpus(verdicts);
  std::erase_if(records, [&](const auto& one) {
    const auto& [uuid, record] = one;
    const bool is_removed = all && !has_gpu(verdicts, uuid);
    return record.turned_bad_at.empty() && (is_removed || (!record.is_bad && !record.is_flapping));
  });
}

void record_silence(FlapRecords& records) {
  for (auto& [uuid, record] : records) record.good_since.reset();
}

protocol::GpuVerdicts count_flapping_as_bad(protocol::GpuVerdicts verdicts,
                                            const FlapRecords& records) {
  for (GpuVerdict& gpu : verdicts.gpus) {
    const auto found = records.find(gpu.uuid);
    if (gpu.verdict != Verdict::good || found == records.end()) continue;
    const FlapRecord& record = found->second;
    if (!record.is_flapping) continue;
    gpu.verdict = Verdict::bad;
    gpu.rule = record.rule;
    gpu.why = fmt::format(
        "GPU {} has turned bad {} times within an hour{}; it counts as bad until it has been good "
        "for "
        "30 minutes",
        gpu.index, kFlapTurns, record.rule.empty() ? "" : ", most recently by " + record.rule);
    gpu.advice = record.advice;
  }
  return verdicts;
}

}  // namespace gpuyard::cli::kube
