#include "cli/kube/plugin_reporter.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "cli/kube/daemon_refusal.h"

namespace gpuyard::cli::kube {

std::optional<std::set<std::string>> hidden_gpus(
    const protocol::GpuVerdicts& verdicts, const std::optional<std::set<std::string>>& offered,
    const std::vector<SliceDevice>& devices) {
  if (!offered) return std::nullopt;
  std::set<std::string> hidden;
  for (const protocol::GpuVerdict& gpu : verdicts.gpus) {
    const bool has_slice =
        std::ranges::find(devices, gpu.uuid, &SliceDevice::uuid) != devices.end();
    if (!gpu.uuid.empty() && !offered->contains(gpu.uuid) && !has_slice) hidden.insert(gpu.uuid);
  }
  return hidden;
}

PluginReporter::PluginReporter(OfferedGpusView& kubelet, PluginReportView& daemon,
                               std::function<TimePoint()> now)
    : kubelet_(kubelet), daemon_(daemon), now_(std::move(now)) {}

void PluginReporter::run_round(const protocol::GpuVerdicts* verdicts,
                               const std::vector<SliceDevice>& devices) {
  // A daemon that was away may have been restarted, and then has no report.
  if (verdicts == nullptr) {
    hidden_.clear();
    return reported_.reset();
  }
  if (now_() < due_) return;
  auto hidden = hidden_gpus(*verdicts, kubelet_.fetch_offered(), devices);
  due_ = now_() + kPluginInterval;
  hidden_ = hidden.value_or(std::set<std::string>());
  // Without an answer of the kubelet, the daemon's knowledge expires.
  if (hidden && (hidden != reported_ || now_() >= repeat_at_)) send(*std::move(hidden));
}

void PluginReporter::send(std::set<std::string> hidden) {
  if (const auto done = daemon_.report_hidden(hidden); !done) return fail(done.error());
  if (!error_.empty()) log::info("the daemon accepts reports of the device plugin again");
  error_.clear();
  if (hidden != logged_) {
    log::info("the device plugin {}",
              hidden.empty() ? "offers all GPUs"
                             : fmt::format("does not offer {}", fmt::join(hidden, ", ")));
  }
  logged_ = hidden;
  reported_ = std::move(hidden);
  repeat_at_ = now_() + kPluginReportInterval;
}

void PluginReporter::fail(Error error) {
  hidden_.clear();
  reported_.reset();  // a report whose answer is lost may have been accepted
  if (is_lasting(error)) due_ = now_() + kRefusedInterval;
  if (error.code == Errc::not_found) {
    error = {Errc::not_found,
             "the daemon is older than this program: a GPU that the device plugin hides causes no "
             "alert"};
  }
  if (error.text() == error_) return;
  error_ = error.text();
  log::warning("{}", error_);
}

}  // namespace gpuyard::cli::kube
