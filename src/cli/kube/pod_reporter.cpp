#include "cli/kube/pod_reporter.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "cli/kube/daemon_refusal.h"

namespace gpuyard::cli::kube {
namespace {

constexpr unsigned kMaxDoublings = 3;  // of the pause after failures in a row

// Whether an error is of one pod's report, so that others may be accepted.
bool is_of_pod(const Error& error) {
  return error.code == Errc::not_found || error.code == Errc::conflict ||
         error.code == Errc::invalid;
}

}  // namespace

std::string report_text(const PodReport& report) {
  const auto* const begun = std::get_if<BeginPod>(&report);
  if (begun == nullptr) return fmt::format("reported that pod {} is gone", pod_of(report));
  return fmt::format("reported pod {} with {}", begun->pod, fmt::join(begun->uuids, ", "));
}

PodReporter::PodReporter(std::string own_pod, PodListView& kubelet, PodLeaseView& daemon,
                         std::function<TimePoint()> now)
    : own_pod_(std::move(own_pod)), kubelet_(kubelet), daemon_(daemon), now_(std::move(now)) {}

void PodReporter::run_round(const std::vector<SliceDevice>& devices, bool daemon_answers) {
  // A daemon that was away may have been replaced, with its state.
  if (!daemon_answers) {
    leased_.reset();
    repeat_due_ = {};
    return;
  }
  if (now_() < due_) return;
  due_ = now_() + kPodInterval;
  if (!read_leased_pods()) return;
  const auto pods = kubelet_.fetch_pods();
  const TimePoint read_at = now_();
  due_ = read_at + kPodInterval;
  std::optional<ListedPods> listed;
  if (pods) {
    listed = listed_pods(*pods, devices);
    log_trust(*listed);
  }
  send_all(plan_pods(listed ? &*listed : nullptr, *leased_, own_pod_, absences_, read_at));
  if (now_() >= repeat_due_ && listed && is_trusted(*listed, own_pod_)) repeat_report(*listed);
}

bool PodReporter::read_leased_pods() {
  if (leased_ && now_() < leased_due_) return true;
  auto fetched = daemon_.fetch_leased_pods();
  if (!fetched) {
    Error error = std::move(fetched).error();
    if (error.code == Errc::not_found) {
      error = {Errc::not_found, "the daemon is older than this program: pods get no leases"};
    }
    fail(error);
    return false;
  }
  leased_ = *std::move(fetched);
  leased_due_ = now_() + kLeasedPodsInterval;
  return true;
}

void PodReporter::send_all(const std::vector<PodReport>& reports) {
  std::erase_if(refusals_, [&](const auto& refusal) {
    return std::ranges::find(reports, refusal.first, pod_of) == reports.end();
  });
  const TimePoint begin = now_();
  std::size_t sent = 0;
  for (const PodReport& report : reports) {
    if (is_waiting(report)) continue;
    if (sent == kMaxReports || (sent > 0 && now_() - begin >= kMaxReportTime)) return;
    ++sent;
    auto done = daemon_.report(report);
    // A lease that ended before, or a report whose answer was lost.
    const bool is_end = std::holds_alternative<EndPod>(report);
    if (!done && is_end && done.error().code == Errc::not_found) done = {};
    if (done) {
      accept();
      apply_report(*leased_, report);
      refusals_.erase(pod_of(report));
      log::info("{}", report_text(report));
    } else if (is_of_pod(done.error())) {
      refuse(report, done.error());
    } else {
      return fail(done.error());
    }
  }
}

// The daemon knows the pods from before its restart, but not whether an allocator still reports. A
// report that changes nothing says so.
void PodReporter::repeat_report(const ListedPods& listed) {
  if (!leased_) return;
  const auto same = std::ranges::find_if(*leased_, [&](const auto& leased) {
    const auto pod = listed.find(leased.first);
    return pod != listed.end() && pod->second.uuids == leased.second;
  });
  if (same == leased_->end()) return;
  const auto done =
      daemon_.report(BeginPod{same->first, same->second, listed.find(same->first)->second.note});
  if (!done && !is_of_pod(done.error())) return fail(done.error());
  accept();
}

bool PodReporter::is_waiting(const PodReport& report) const {
  const auto refusal = refusals_.find(pod_of(report));
  return refusal != refusals_.end() && refusal->second.report == report &&
         now_() < refusal->second.retry_at;
}

void PodReporter::refuse(const PodReport& report, const Error& error) {
  const auto before = refusals_.find(pod_of(report));
  if (before == refusals_.end() || before->second.report != report) {
    log::warning("the daemon refuses the report of pod {}: {}", pod_of(report), error.text());
  }
  refusals_.insert_or_assign(pod_of(report), Refusal{report, now_() + kRefusedPodInterval});
  leased_due_ = {};  // a refused report may have ended the pod's earlier lease
}

void PodReporter::accept() {
  repeat_due_ = now_() + kLeasedPodsInterval;
  failures_ = 0;
  if (!error_.empty()) log::info("the daemon accepts reports of pods again");
  error_.clear();
}

void PodReporter::fail(const Error& error) {
  leased_.reset();  // a report whose answer is lost may have been accepted
  repeat_due_ = {};
  const Duration pause = kPodInterval * (1U << std::min(failures_++, kMaxDoublings));
  due_ = now_() + (is_lasting(error) ? kRefusedInterval : pause);
  if (error.text() == error_) return;
  error_ = error.text();
  log::warning("{}", error_);
}

void PodReporter::log_trust(const ListedPods& listed) {
  const bool is_untrusted = !is_trusted(listed, own_pod_);
  if (is_untrusted && !untrusted_logged_) {
    log::warning("the kubelet does not list {}; until it does, no pod is reported",
                 own_pod_.empty() ? "any pod" : fmt::format("the agent's own pod {}", own_pod_));
  }
  untrusted_logged_ = is_untrusted;
}

}  // namespace gpuyard::cli::kube
