// What waits for one sink: which notice goes next, when, and what becomes of one that fails. Inner
// header of the room; knows no sink's language.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "notify/dead_letter_log.h"
#include "notify/outlets.h"
#include "notify/retry.h"
#include "notify/sender.h"
#include "notify/sink_config.h"
#include "notify/told_levels.h"

namespace gpuyard::notify {

class SinkQueue {
 public:
  SinkQueue(Loop&, SinkConfig, std::unique_ptr<Sender>, std::weak_ptr<const Outlets::Told>);
  SinkQueue(const SinkQueue&) = delete;
  SinkQueue& operator=(const SinkQueue&) = delete;

  const SinkConfig& config() const { return config_; }
  // Another way to the same sink. What is under way ends as it began.
  void configure(SinkConfig, std::unique_ptr<Sender>);

  void push(Notice);
  void repeat(std::vector<Notice> firing);
  // Everything that waits or is under way is dead.
  void close(const std::string& why);

  SinkFigures figures() const;

 private:
  struct Entry {
    std::uint64_t number = 0;
    Notice notice;
    TimePoint queued;
    unsigned tries = 0;
    TimePoint again_at{};
  };
  using Entries = std::deque<Entry>;
  static constexpr std::uint64_t kRepetition = 0;  // instead of an entry's number

  void pump();
  void pump_at(TimePoint);
  void give_up_on_old();
  void make_room();
  bool start_repetition();
  void start(Entry&);
  void send(std::uint64_t number, std::vector<Notice>);
  void on_done(std::uint64_t number, const Outcome&);
  void on_taken(const Entries::iterator&);
  void note_success();
  void note_failure(const Outcome&);
  void bury(const Entries::iterator&, const std::string& why);
  void tell_delivered(const std::string& id);
  void tell_dead(const std::string& id, const std::string& why);
  void write_to_log(const Notice&);

  std::pair<Entries::iterator, TimePoint> next_entry();
  TimePoint ready_at(const Entry&) const;
  TimePoint oldest_expires() const;
  bool is_under_way(const Entry& entry) const { return under_way_ == entry.number; }
  double random() { return std::uniform_real_distribution<double>()(random_); }

  Loop& loop_;
  SinkConfig config_;
  std::shared_ptr<Sender> sender_;
  std::vector<std::shared_ptr<Sender>> former_;  // one of which has something under way
  std::weak_ptr<const Outlets::Told> told_;
  std::minstd_rand random_{std::random_device()()};

  Entries entries_;  // oldest first
  std::uint64_t last_number_ = kRepetition;
  std::optional<std::uint64_t> under_way_;
  RateLimit rate_;
  bool said_that_it_waits_ = false;

  std::vector<Notice> firing_;  // to be told again and again
  TimePoint repeat_at_ = TimePoint::max();
  ToldLevels levels_;  // of a sink that takes several

  unsigned failures_ = 0;  // in a row
  TimePoint open_at_{};    // when anything may go
  std::optional<WallTime> failing_since_;
  std::optional<std::string> last_error_;
  std::uint64_t delivered_ = 0;
  std::uint64_t retries_ = 0;
  DeadLetterLog dead_;

  Subscription timer_;
};

}  // namespace gpuyard::notify
