// The notifications that wait for one sink: which goes next, when, and what becomes of one that
// fails. Inner header of the room; knows no sink's language.
//
// The states of a notification, and the function that makes each arrow:
//
//     enqueue()
//         |
//         v
//    +--------+ -- start() ------------------------------> +-----------+
//    | queued |                                            | under way |
//    +--------+ <- on_done(): to be retried at retry_at -- +-----------+
//         |                                                  |       |
//         |                            on_done(): rejected   |       |  on_done(): delivered
//         |                                                  v       v
//         |  make_room(): too many are queued     +-------------+   +-----------+
//         |  expire_old(): after 6 hours          | dead letter |   | delivered |
//         +-- close(): the sink is removed -----> +-------------+   +-----------+
//
// close() also makes a dead letter of the one that is under way. The listener is notified of both
// last states, and then removes the message from the outbox of alerts (AlertService); a daemon that
// restarts queues what is still in there, with the same ids. A sink of kind `log` is written to at
// once, by enqueue(); repetitions of firing alerts, start_repetition(), wait in no queue.
//
// Thread: io.
#pragma once

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
#include "base/identifiers.h"
#include "base/loop.h"
#include "io/notify/back_off.h"
#include "io/notify/dead_letter_log.h"
#include "io/notify/notification.h"
#include "io/notify/notified_levels.h"
#include "io/notify/sender.h"
#include "io/notify/sink_config.h"
#include "io/notify/sink_dispatcher.h"

namespace gpuyard::notify {

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
  SinkStats counted_;       // what stats() does not read elsewhere
  DeadLetterLog dead_letters_;

  Subscription timer_;
};

}  // namespace gpuyard::notify
