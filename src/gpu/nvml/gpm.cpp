#include "nvml/gpm.h"

#include <array>
#include <cmath>
#include <utility>

namespace gpuyard::nvml {
namespace {

struct Pipe {
  Metric metric;
  unsigned id;
};
constexpr std::array kPipes = {
    Pipe{Metric::gpm_graphics, kGpmGraphics},   Pipe{Metric::gpm_sm, kGpmSm},
    Pipe{Metric::gpm_occupancy, kGpmOccupancy}, Pipe{Metric::gpm_tensor, kGpmTensor},
    Pipe{Metric::gpm_dram, kGpmDram},           Pipe{Metric::gpm_fp64, kGpmFp64},
    Pipe{Metric::gpm_fp32, kGpmFp32},           Pipe{Metric::gpm_fp16, kGpmFp16},
};

}  // namespace

Gpm::~Gpm() {
  if (older_ != nullptr) api_.gpm_sample_free(older_);
  if (newer_ != nullptr) api_.gpm_sample_free(newer_);
}

ReturnCode Gpm::take(DeviceHandle device, TimePoint now) {
  if (older_ == nullptr) {
    GpmSupport support;
    if (const ReturnCode code = api_.gpm_support(device, &support); code != kSuccess) return code;
    if (support.supported == 0) return kNotSupported;
    if (const ReturnCode code = api_.gpm_sample_alloc(&older_); code != kSuccess) return code;
  }
  if (newer_ == nullptr) {
    if (const ReturnCode code = api_.gpm_sample_alloc(&newer_); code != kSuccess) return code;
  }
  if (older_taken_) return api_.gpm_sample_get(device, newer_);
  const ReturnCode code = api_.gpm_sample_get(device, older_);
  if (code == kSuccess) older_taken_ = now;
  return code == kSuccess ? kNotReady : code;
}

void Gpm::measure(Recorder& record) {
  GpmMetricsGet question;
  question.count = static_cast<unsigned>(kPipes.size());
  question.sample1 = older_;
  question.sample2 = newer_;
  for (std::size_t i = 0; i < kPipes.size(); ++i) question.metrics[i].id = kPipes[i].id;
  const ReturnCode code = api_.gpm_metrics_get(&question);
  if (code != kSuccess) return record.missing(Probe::gpm, code);
  constexpr double kMillipercent = 1000;
  constexpr double kMost = 100;
  for (std::size_t i = 0; i < kPipes.size(); ++i) {
    const GpmMetric& answer = question.metrics[i];
    if (answer.code != kSuccess) {
      record.missing(kPipes[i].metric, answer.code);
    } else if (!(answer.value >= 0 && answer.value <= kMost)) {  // nor NaN
      record.implausible(kPipes[i].metric);
    } else {
      record.value(kPipes[i].metric, std::llround(answer.value * kMillipercent));
    }
  }
}

void Gpm::read(DeviceHandle device, Recorder record) {
  const TimePoint now = record.taken();
  if (older_taken_ && now - *older_taken_ < kLeastInterval) {
    return record.missing(Probe::gpm, kNotReady);
  }
  ReturnCode taken = kSuccess;
  const Metric first = row_of(Probe::gpm).fills.front();
  if (!record.ask_for(first, [&] { return taken = take(device, now); })) {
    const Missing why = *record.sample().find(first)->missing();
    // A GPU that was lost starts anew: what it counted before means nothing afterwards.
    if (taken != kNotReady) older_taken_.reset();
    return record.missing(Probe::gpm, why);
  }
  measure(record);
  std::swap(older_, newer_);
  older_taken_ = now;
}

}  // namespace gpuyard::nvml
