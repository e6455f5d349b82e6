#include "cli/kube/event_reporter.h"

#include <utility>

#include "base/log.h"
#include "io/kube/back_off.h"

namespace gpuyard::cli::kube {
namespace {

using gpuyard::kube::Answer;
using gpuyard::kube::Outcome;

constexpr std::uint64_t kNanosecondsPerMillisecond = 1'000'000;

// Whether the same request would be refused until somebody changes the cluster.
bool is_refusal(Outcome outcome) {
  return outcome == Outcome::forbidden || outcome == Outcome::rejected ||
         outcome == Outcome::absent;
}

}  // namespace

EventReporter::EventReporter(EventView& cluster, MemoryFile& file, AgentEnvironment environment)
    : cluster_(cluster),
      file_(file),
      environment_(std::move(environment)),
      sequence_(static_cast<std::uint64_t>(environment_.random() *
                                           static_cast<double>(kNanosecondsPerMillisecond))) {}

void EventReporter::run_round(const DaemonReport& report, const std::string& node_uid) {
  const Moment start = environment_.now();
  if (node_uid.empty() || start.boot < next_round_) return;
  follow_node(node_uid);
  if (pending_ && !send()) return;
  const Desired desired = desired_state(report, file_.memory().flaps, start.boot);
  while (true) {
    const auto events = events_of(desired, reported());
    const Moment now = environment_.now();
    if (events.empty() || now.boot - start.boot >= kMaxEventTime) return;
    if (!limit_.has_room(now.boot)) return log_limit();
    begin(events.front(), now);
    if (!send()) return;
  }
}

// Events about a Node with another uid are not those of this one.
void EventReporter::follow_node(const std::string& uid) {
  if (reported().node_uid == uid) return;
  reported() = ReportedEvents{.node_uid = uid};
  pending_.reset();
}

void EventReporter::begin(const GpuEvent& event, const Moment& now) {
  const std::uint64_t number =
      static_cast<std::uint64_t>(to_unix_ms(now.wall)) * kNanosecondsPerMillisecond +
      sequence_++ % kNanosecondsPerMillisecond;
  pending_ = Pending{{number, reported().node_uid, event, now.wall}, reported()};
  record_event(reported(), event);
  file_.save();
}

// Returns whether the server has the pending Event.
bool EventReporter::send() {
  const Answer answer = cluster_.write_event(pending_->event);
  const bool was_lost = pending_->is_repeated && answer.outcome == Outcome::already_exists;
  if (answer.ok() || was_lost) {
    accept();
    return true;
  }
  // The refusal of a repeated Event says nothing of the attempt before, whose answer was lost.
  if (may_be_carried_out(answer.outcome) ||
      (pending_->is_repeated && answer.outcome != Outcome::rejected)) {
    pending_->is_repeated = true;
  } else {
    take_back();
  }
  fail(answer);
  return false;
}

void EventReporter::take_back() {
  reported() = std::move(pending_->before);
  pending_.reset();
  file_.save();
}

void EventReporter::accept() {
  const TimePoint now = environment_.now().boot;
  if (limit_.is_unused(now)) limit_logged_ = false;
  limit_.add(now);
  if (logged_) log::info("events are written again");
  logged_.reset();
  failures_ = 0;
  const GpuEvent& event = pending_->event.event;
  log::info("wrote the event {}: {}", event.reason, event.message);
  pending_.reset();
}

void EventReporter::fail(const Answer& answer) {
  ++failures_;
  const Duration pause =
      is_refusal(answer.outcome)
          ? kRefusedEventInterval
          : gpuyard::kube::back_off(failures_, answer.retry_after, environment_.random());
  next_round_ = environment_.now().boot + pause;
  // Compared by outcome: a policy's message contains the Event's name, which is new each time.
  if (logged_ == answer.outcome) return;
  logged_ = answer.outcome;
  log::warning("an event was not written: {}; the next attempt is in {} s", answer.message,
               std::chrono::ceil<std::chrono::seconds>(pause).count());
}

// Once, until an hour has passed without an Event.
void EventReporter::log_limit() {
  if (std::exchange(limit_logged_, true)) return;
  log::warning("the limit of {} events an hour is reached: until there is room, none is written",
               kMaxEvents);
}

}  // namespace gpuyard::cli::kube
