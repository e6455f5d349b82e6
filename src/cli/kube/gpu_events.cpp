#include "cli/kube/gpu_events.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "cli/kube/object_names.h"
#include "cli/read/check.h"

namespace gpuyard::cli::kube {
namespace {

std::string name_of_gpu(const DesiredGpu& gpu) {
  return fmt::format("GPU {} ({})", gpu.index, gpu.uuid);
}

// "the alert xid-fatal has ended"
std::string ended_text(const std::string& rule) {
  return rule.empty() ? "its alert has ended" : fmt::format("the alert {} has ended", rule);
}

std::string event_reason(const std::string& rule) {
  const std::string reason = camel_case(rule).substr(0, kMaxEventReasonBytes);
  return reason.empty() ? "GPUBad" : reason;
}

// One comparison.
class EventPlanner {
 public:
  EventPlanner(const Desired& desired, const ReportedEvents& reported)
      : desired_(desired), reported_(reported) {}

  std::vector<GpuEvent> plan() {
    if (!desired_.is_known) return {};
    plan_driver();
    for (const DesiredGpu& gpu : desired_.gpus) {
      if (gpu.uuid.empty()) continue;
      const ReportedGpu reported = reported_of(gpu.uuid);
      plan_alert(gpu, reported);
      plan_cordon(gpu, reported);
    }
    if (desired_.is_complete) plan_removals();
    std::ranges::move(others_, std::back_inserter(warnings_));
    return std::move(warnings_);
  }

 private:
  ReportedGpu reported_of(const std::string& uuid) const {
    const auto found = reported_.gpus.find(uuid);
    return found != reported_.gpus.end() ? found->second : ReportedGpu{};
  }

  // Without a driver and without its alert, which may have been acknowledged, nothing has ended.
  void plan_driver() {
    if (desired_.driver_down && !reported_.driver_down) {
      add({.kind = EventKind::driver_down,
           .reason = "DriverDown",
           .message = desired_.condition ? desired_.condition->message : ""});
    }
    if (!desired_.driver_down && desired_.is_complete && reported_.driver_down) {
      add({.kind = EventKind::driver_up,
           .reason = "DriverUp",
           .message = "the driver responds: the alert driver-down has ended"});
    }
  }

  void plan_alert(const DesiredGpu& gpu, const ReportedGpu& reported) {
    if (gpu.verdict == Verdict::bad && reported.rule != gpu.rule) {
      add({.kind = EventKind::bad,
           .uuid = gpu.uuid,
           .rule = gpu.rule,
           .reason = event_reason(gpu.rule),
           .message = gpu.message});
    }
    if (gpu.verdict == Verdict::good && reported.rule) {
      add({.kind = EventKind::good,
           .uuid = gpu.uuid,
           .reason = "GPUHealthy",
           .message =
               fmt::format("{} is healthy: {}", name_of_gpu(gpu), ended_text(*reported.rule))});
    }
  }

  void plan_cordon(const DesiredGpu& gpu, const ReportedGpu& reported) {
    if (gpu.cordoned == reported.cordoned) return;
    if (gpu.cordoned) {
      add({.kind = EventKind::cordoned,
           .uuid = gpu.uuid,
           .reason = "GPUCordoned",
           .message = fmt::format("{} is cordoned{}{}", name_of_gpu(gpu),
                                  gpu.cordon_reason.empty() ? "" : ": ", gpu.cordon_reason)});
    } else {
      add({.kind = EventKind::uncordoned,
           .uuid = gpu.uuid,
           .reason = "GPUUncordoned",
           .message = name_of_gpu(gpu) + " is no longer cordoned"});
    }
  }

  void plan_removals() {
    for (const auto& [uuid, reported] : reported_.gpus) {
      const auto listed = std::ranges::find(desired_.gpus, uuid, &DesiredGpu::uuid);
      if (listed != desired_.gpus.end()) continue;
      add({.kind = EventKind::removed,
           .uuid = uuid,
           .reason = "GPURemoved",
           .message =
               fmt::format("{} is no longer in this machine{}{}", uuid, reported.rule ? ": " : "",
                           reported.rule ? ended_text(*reported.rule) : "")});
    }
  }

  void add(GpuEvent event) {
    event.message = shortened(std::move(event.message), kMaxEventMessageBytes);
    (event.is_warning() ? warnings_ : others_).push_back(std::move(event));
  }

  const Desired& desired_;
  const ReportedEvents& reported_;
  std::vector<GpuEvent> warnings_;
  std::vector<GpuEvent> others_;
};

}  // namespace

std::vector<GpuEvent> events_of(const Desired& desired, const ReportedEvents& reported) {
  return EventPlanner(desired, reported).plan();
}

void record_event(ReportedEvents& reported, const GpuEvent& event) {
  switch (event.kind) {
    case EventKind::driver_down:
      reported.driver_down = true;
      return;
    case EventKind::driver_up:
      reported.driver_down = false;
      return;
    case EventKind::bad:
      reported.gpus[event.uuid].rule = event.rule;
      break;
    case EventKind::good:
      reported.gpus[event.uuid].rule.reset();
      break;
    case EventKind::removed:
      reported.gpus.erase(event.uuid);
      break;
    case EventKind::cordoned:
      reported.gpus[event.uuid].cordoned = true;
      break;
    case EventKind::uncordoned:
      reported.gpus[event.uuid].cordoned = false;
      break;
  }
  std::erase_if(reported.gpus, [](const auto& one) { return one.second == ReportedGpu{}; });
}

bool EventLimit::has_room(TimePoint now) {
  forget_old(now);
  return written_at_.size() < kMaxEvents;
}

bool EventLimit::is_unused(TimePoint now) {
  forget_old(now);
  return written_at_.empty();
}

void EventLimit::add(TimePoint now) {
  written_at_.push_back(now);
}

void EventLimit::forget_old(TimePoint now) {
  std::erase_if(written_at_, [&](TimePoint at) { return now - at >= kEventWindow; });
}

}  // namespace gpuyard::cli::kube
