#include "io/notify/sink_queue.h"

#include <algorithm>
#include <climits>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/log.h"
#include "io/notify/back_off.h"
#include "io/notify/notification.h"

namespace gpuyard::notify {

SinkQueue::SinkQueue(Loop& loop, SinkConfig config, std::unique_ptr<Sender> sender,
                     std::weak_ptr<const SinkDispatcher::DeliveryListener> listener)
    : loop_(loop),
      config_(std::move(config)),
      sender_(std::move(sender)),
      listener_(std::move(listener)),
      rate_(config_.rate_per_minute),
      dead_letters_(loop, config_.name) {}

void SinkQueue::configure(SinkConfig config, std::unique_ptr<Sender> sender) {
  if (under_way_) former_senders_.push_back(std::move(sender_));
  sender_ = std::move(sender);
  config_ = std::move(config);
  rate_ = RateLimit(config_.rate_per_minute);
  // The change may have removed the cause of the failures.
  resumes_at_ = loop_.now();
  for (Entry& entry : entries_) entry.retry_at = loop_.now();
  if (!firing_.empty()) repeat_at_ = loop_.now() + config_.resend;
  start_next_at(loop_.now());
}

void SinkQueue::enqueue(Notification notification) {
  if (config_.kind == SinkKind::log) return write_to_log(notification);
  entries_.push_back({++last_number_, std::move(notification), loop_.now()});
  make_room();
  start_next_at(loop_.now());
}

void SinkQueue::write_to_log(const Notification& notification) {
  log_notification(notification);
  ++counted_.delivered_total;
  notify_delivered(notification.id);
}

// Drops the oldest of the least severe: a flood of small alerts costs no page.
void SinkQueue::make_room() {
  if (entries_.size() <= kMaxQueuedNotifications) return;
  const auto weight = [this](const Entry& entry) {
    return is_under_way(entry) ? UINT_MAX : entry.notification.severity;
  };
  dead_letter(
      std::ranges::min_element(entries_, {}, weight),
      fmt::format("{} other notifications are queued for the sink, none of them less severe",
                  kMaxQueuedNotifications));
}

void SinkQueue::set_firing(std::vector<Notification> firing) {
  if (firing_.empty() && !firing.empty()) repeat_at_ = loop_.now() + config_.resend;
  firing_ = std::move(firing);
  if (firing_.empty()) repeat_at_ = TimePoint::max();
  start_next_at(loop_.now());
}

void SinkQueue::close(const std::string& why) {
  timer_.reset();
  under_way_.reset();
  while (!entries_.empty()) dead_letter(entries_.begin(), why);
}

void SinkQueue::start_next_at(TimePoint when) {
  timer_ = loop_.call_at(when, [this] { start_next(); });
}

void SinkQueue::start_next() {
  expire_old();
  if (under_way_ || start_repetition()) return;
  const auto [next, ready] = next_entry();
  const bool nothing = next == entries_.end();
  if (nothing) logged_wait_ = false;
  const TimePoint start_at = nothing ? TimePoint::max() : std::max(ready, rate_.free_at());
  if (start_at <= loop_.now()) return start(*next);
  if (!nothing && ready <= loop_.now() && !std::exchange(logged_wait_, true)) {
    log::warning("Sink {}: more than {} attempts per minute; {} waiting", config_.name,
                 config_.rate_per_minute, entries_.size());
  }
  const TimePoint wake_at = std::min({start_at, repeat_at_, oldest_expires()});
  if (wake_at != TimePoint::max()) start_next_at(wake_at);
}

// Chooses among the first notifications of each alert, so that no end overtakes its beginning. Of
// those ready at the same time it takes the one tried least, so that one that fails delays no
// other; of those the most severe, then the oldest.
std::pair<SinkQueue::Entries::iterator, TimePoint> SinkQueue::next_entry() {
  auto best = entries_.end();
  TimePoint earliest = TimePoint::max();
  std::set<std::string_view> alerts;
  const TimePoint now = loop_.now();  // one for all, or the first would always be the earliest
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (!alerts.insert(entry->notification.key).second) continue;
    const TimePoint ready = std::max(ready_at(*entry), now);
    const auto rank = [](const Entry& one) {
      return std::pair(one.tries, UINT_MAX - one.notification.severity);
    };
    const bool first = best == entries_.end() || rank(*entry) < rank(*best);
    if (ready > earliest || (ready == earliest && !first)) continue;
    best = entry;
    earliest = ready;
  }
  return {best, earliest};
}

TimePoint SinkQueue::ready_at(const Entry& entry) const {
  return std::max(resumes_at_, entry.retry_at);
}

TimePoint SinkQueue::oldest_expires() const {
  return entries_.empty() ? TimePoint::max() : entries_.front().queued_at + kDeliveryTimeout;
}

void SinkQueue::expire_old() {
  constexpr auto kHours = std::chrono::duration_cast<std::chrono::hours>(kDeliveryTimeout).count();
  while (!entries_.empty() && oldest_expires() <= loop_.now() && !is_under_way(entries_.front())) {
    dead_letter(entries_.begin(),
                fmt::format("dropped after {} hours: {}", kHours,
                            counted_.last_error.value_or("it was still waiting in the queue")));
  }
}

bool SinkQueue::start_repetition() {
  if (repeat_at_ > loop_.now() || firing_.empty()) return false;
  if (resumes_at_ > loop_.now()) {
    repeat_at_ = loop_.now() + config_.resend;
    return false;
  }
  send(kRepetitionNumber, firing_);
  return true;
}

void SinkQueue::start(Entry& entry) {
  rate_.acquire(loop_.now());
  if (entry.tries++ > 0) ++counted_.retries_total;
  send(entry.number, {entry.notification});
}

void SinkQueue::send(std::uint64_t number, std::vector<Notification> notifications) {
  const bool several = can_batch(config_.kind);
  if (several) notifications = levels_.add_level_changes(std::move(notifications), loop_.wall());
  under_way_ = number;
  // `this` is safe: it goes only with all its senders, and they call nobody after that.
  sender_->send(notifications, [this, number, several, notifications](const SendResult& result) {
    if (several && result.kind == SendResult::Kind::delivered) levels_.record(notifications);
    on_done(number, result);
  });
}

void SinkQueue::on_done(std::uint64_t number, const SendResult& result) {
  under_way_.reset();
  // Destroyed later, because one of them is the caller.
  if (!former_senders_.empty()) loop_.post([former = std::exchange(former_senders_, {})] {});
  const auto entry = std::ranges::find(entries_, number, &Entry::number);
  const bool is_entry = entry != entries_.end();
  if (result.kind == SendResult::Kind::delivered) {
    record_success();
    if (is_entry) on_delivered(entry);
  } else {
    record_failure(result);
    if (is_entry) entry->retry_at = loop_.now() + back_off(entry->tries, random());
    if (is_entry && result.kind == SendResult::Kind::rejected) dead_letter(entry, result.reason);
  }
  // Counted from the end of this repetition, and from when other notifications may go: a sink
  // slower than that has time for both.
  if (number == kRepetitionNumber && !firing_.empty()) {
    repeat_at_ = std::max(resumes_at_, loop_.now()) + config_.resend;
  }
  start_next_at(loop_.now());
}

void SinkQueue::on_delivered(const Entries::iterator& entry) {
  ++counted_.delivered_total;
  notify_delivered(entry->notification.id);
  entries_.erase(entry);
}

void SinkQueue::record_success() {
  if (counted_.failing_since)
    log::info("Sink {} ({}) accepts notifications again", config_.name, config_.destination());
  if (failures_ >= kDownThreshold) {
    for (Entry& entry : entries_) entry.retry_at = loop_.now();
  }
  failures_ = 0;
  counted_.failing_since.reset();
  resumes_at_ = loop_.now();
}

void SinkQueue::record_failure(const SendResult& result) {
  counted_.last_error = result.reason;
  if (!counted_.failing_since) {
    counted_.failing_since = loop_.wall();
    log::warning("Sink {} ({}) fails: {}", config_.name, config_.destination(), result.reason);
  }
  if (result.kind != SendResult::Kind::retry) return;
  ++failures_;
  const Duration pause = std::min(back_off(failures_, random()), kMaxFailurePause);
  const Duration asked = std::min(result.retry_after.value_or(Duration::zero()), kMaxRetryAfter);
  resumes_at_ = loop_.now() + std::max(pause, asked);
}

void SinkQueue::dead_letter(const Entries::iterator& entry, const std::string& why) {
  dead_letters_.record(entry->notification.key, why);
  notify_dead_letter(entry->notification.id, why);
  entries_.erase(entry);
}

void SinkQueue::notify_delivered(const std::string& id) {
  loop_.post([listener = listener_, sink = config_.name, id] {
    if (const auto still = listener.lock()) still->on_delivered(sink, id);
  });
}

void SinkQueue::notify_dead_letter(const std::string& id, const std::string& why) {
  loop_.post([listener = listener_, sink = config_.name, id, why] {
    if (const auto still = listener.lock()) still->on_dead_letter(sink, id, why);
  });
}

SinkStats SinkQueue::stats() const {
  SinkStats stats = counted_;
  stats.name = config_.name;
  stats.kind = config_.kind;
  stats.destination = config_.destination();
  stats.queued = entries_.size();
  stats.dead_letters_total = dead_letters_.total();
  stats.closed = !config_.unusable_reason.empty();
  if (stats.closed) stats.last_error = config_.unusable_reason;
  return stats;
}

}  // namespace gpuyard::notify
