// The notifications that wait for one sink: which goes next, when, and what becomes of one that
// fails. Inner header of the room; knows no sink's language.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/loop.h"
#include "io/notify/notification.h"
#include "io/notify/notified_levels.h"
#include "io/notify/sender.h"
#include "io/notify/sink_config.h"
#include "io/notify/sink_dispatcher.h"

namespace gpuyard::notify {

// How often and how long a sink is tried, and what is kept for it. Knows no sink.

inline constexpr std::size_t kMaxQueuedNotifications = 1000;  // notifications for one sink
inline constexpr Duration kInitialBackOff = std::chrono::seconds(1);
inline constexpr Duration kMaxBackOff = std::chrono::minutes(5);
inline constexpr Duration kDeliveryTimeout = std::chrono::hours(6);  // from when it was queued
// The longest wait after a failure before another notification is tried, however long the failed
// one waits. The next alert thus finds out that a sink has come back, and a fault of one
// notification delays no other.
inline constexpr Duration kMaxFailurePause = std::chrono::seconds(5);
// The longest wait that a receiver may ask for.
inline constexpr Duration kMaxRetryAfter = std::chrono::minutes(15);
// This many failures in a row mean that the sink is down, not that a notification is wrong.
inline constexpr unsigned kDownThreshold = 3;

// The wait after that many failures. It doubles from kInitialBackOff to kMaxBackOff;
// `random` (0 to 1) chooses between half and all of it, so that many nodes do not come back at the
// same moment.
Duration back_off(unsigned failures, double random);

// Allows `per_minute` tries at once after a quiet minute; then one each time a try's share of a
// minute has passed.
class RateLimit {
 public:
  explicit RateLimit(unsigned per_minute)
      : interval_(Duration(std::chrono::minutes(1)) / per_minute),
        burst_(interval_ * (per_minute - 1)) {}

  // The moment of the next allowed try; one in the past means now.
  TimePoint free_at() const { return spent_until_ - burst_; }
  void acquire(TimePoint now) { spent_until_ = std::max(spent_until_, now) + interval_; }

 private:
  Duration interval_;
  Duration burst_;
  TimePoint spent_until_{};
};

class SinkQueue {
 public:
  SinkQueue(Loop&, SinkConfig, std::unique_ptr<Sender>,
            std::weak_ptr<const SinkDispatcher::DeliveryListener>);
  SinkQueue(const SinkQueue&) = delete;
  SinkQueue& operator=(const SinkQueue&) = delete;

  const SinkConfig& config() const { return config_; }
  // Replaces the sender to the same sink. A try under way keeps its sender.
  void configure(SinkConfig, std::unique_ptr<Sender>);

  void enqueue(Notification);
  void set_firing(std::vector<Notification> firing);
  // Every notification that waits or is under way is a dead letter.
  void close(const std::string& why);

  SinkStats stats() const;

 private:
  struct Entry {
    std::uint64_t number = 0;
    Notification notification;
    TimePoint queued_at;
    unsigned tries = 0;
    TimePoint retry_at{};
  };
  using Entries = std::deque<Entry>;
  static constexpr std::uint64_t kRepetitionNumber = 0;  // instead of an entry's number

  void start_next();
  void start_next_at(TimePoint);
  void expire_old();
  void make_room();
  bool start_repetition();
  void start(Entry&);
  void send(std::uint64_t number, std::vector<Notification>);
  void on_done(std::uint64_t number, const SendResult&);
  void on_delivered(const Entries::iterator&);
  void record_success();
  void record_failure(const SendResult&);
  void dead_letter(const Entries::iterator&, const std::string& why);
  void notify_delivered(const std::string& id);
  void notify_dead_letter(const std::string& id, const std::string& why);
  void write_to_log(const Notification&);

  std::pair<Entries::iterator, TimePoint> next_entry();
  TimePoint ready_at(const Entry&) const;
  TimePoint oldest_expires() const;
  bool is_under_way(const Entry& entry) const { return under_way_ == entry.number; }
  double random() { return std::uniform_real_distribution<double>()(random_); }

  Loop& loop_;
  SinkConfig config_;
  std::shared_ptr<Sender> sender_;
  std::vector<std::shared_ptr<Sender>> former_senders_;  // one of which has something under way
  std::weak_ptr<const SinkDispatcher::DeliveryListener> listener_;
  // Seeded with a new id, so that not all sinks try again at the same moments.
  std::minstd_rand random_{
      static_cast<std::minstd_rand::result_type>(std::hash<std::string>()(new_id()))};

  Entries entries_;  // oldest first
  std::uint64_t last_number_ = kRepetitionNumber;
  std::optional<std::uint64_t> under_way_;
  RateLimit rate_;
  bool logged_wait_ = false;

  std::vector<Notification> firing_;  // to be sent again and again
  TimePoint repeat_at_ = TimePoint::max();
  NotifiedLevels levels_;  // of a sink that takes several

  unsigned failures_ = 0;   // in a row
  TimePoint resumes_at_{};  // no notification goes before
  std::optional<WallTime> failing_since_;
  std::optional<std::string> last_error_;
  std::uint64_t delivered_ = 0;
  std::uint64_t retries_ = 0;
  DeadLetterLog dead_letters_;

  Subscription timer_;
};

}  // namespace gpuyard::notify
