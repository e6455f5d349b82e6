// The parts of IoLoop, for the files of this folder that run coroutines on it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/fair_queue.h"
#include "base/limits.h"
#include "base/loop.h"
#include "io/http/asio.h"
#include "io/http/connection_quotas.h"
#include "io/http/loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

namespace gpuyard::http {

// All timers of a loop over one timerfd. Not Asio's timers: those count CLOCK_MONOTONIC, which
// stands still in suspend, and leave the order of equal deadlines open.
class TimerQueue {
 public:
  using Key = std::pair<TimePoint, std::uint64_t>;

  explicit TimerQueue(asio::io_context& io);
  Key add(TimePoint when, std::function<void()> work);
  void erase(const Key& key) { timers_.erase(key); }

 private:
  void wait();
  void fire();
  void arm();

  asio::posix::stream_descriptor descriptor_;
  std::map<Key, std::function<void()>> timers_;
  std::uint64_t next_ = 0;
  TimePoint armed_ = TimePoint::max();
};

// Gives turns to connections that have much to write. In one turn of the loop all of them together
// get a bounded time, so that a client that asks for little does not wait for many others; and the
// quota groups take turns, so that many connections of one do not delay the few of another. Root
// gets every second turn, because a local user can connect from many addresses, and each counts as
// a quota group.

class TurnScheduler {
 public:
  // In one turn of the loop all of them together get this time, but at least one does.
  explicit TurnScheduler(asio::io_context& io, Duration budget = kTurnBudget)
      : io_(io), budget_(budget) {}

  // Waits for a turn of this quota group. The turn is what the caller then does without waiting for
  // anything else: the write of a chunk, for example.
  asio::awaitable<void> wait_for_turn(const QuotaGroup&);
  // Waits until wake(`key`), and then for a turn as wait_for_turn() does.
  asio::awaitable<void> sleep(const void* key, const QuotaGroup&);
  // Cheap; does nothing if `key` does not sleep.
  void wake(const void* key);

  static constexpr Duration kTurnBudget = limits::kTurnBudget;
  // A write of at most this many bytes goes without waiting for a turn.
  static constexpr std::size_t kMaxImmediateBytes = std::size_t{16} * 1024;
  static constexpr std::size_t kPieceBytes = limits::kChunkBytes;  // to write in a turn

 private:
  using Resume = std::function<void()>;
  struct Sleeper {
    QuotaGroup quota_group;
    Resume resume;
  };

  void add(const QuotaGroup& group, Resume resume);
  void run_turns();

  asio::io_context& io_;
  const Duration budget_;
  RoundRobinQueue<QuotaGroup, Resume> waiting_;
  std::unordered_map<const void*, Sleeper> sleepers_;
  bool running_ = false;
};

struct IoLoop::Core {
  Core() : guard(asio::make_work_guard(io)), timers(std::make_shared<TimerQueue>(io)) {}

  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard;
  std::shared_ptr<TimerQueue> timers;  // shared for the weak_ptr of its subscriptions
  TurnScheduler turns{io};
  // For the steps of handshakes over TLS: one in a turn of the loop, since one may take
  // milliseconds.
  TurnScheduler handshake_turns{io, Duration::zero()};
};

// A deadline that moves many times a second. The timer is set again only when it rings before the
// deadline, or when the deadline moves to before it. Knows no connection.

class Deadline {
 public:
  // `on_missed` is called once for each set() that is not followed by another in time.
  Deadline(Loop& loop, std::function<void()> on_missed)
      : loop_(loop), on_missed_(std::move(on_missed)) {}

  void set(Duration from_now) {
    missed_ = false;
    expires_at_ = loop_.now() + from_now;
    if (expires_at_ < alarm_at_) set_alarm();
  }
  bool is_missed() const { return missed_; }

 private:
  void set_alarm() {
    alarm_at_ = expires_at_;
    alarm_ = loop_.call_at(expires_at_, [this] { on_alarm(); });
  }
  void on_alarm() {
    alarm_at_ = TimePoint::max();
    if (loop_.now() < expires_at_) return set_alarm();
    missed_ = true;
    on_missed_();
  }

  Loop& loop_;
  std::function<void()> on_missed_;
  bool missed_ = false;
  TimePoint expires_at_ = TimePoint::max();
  TimePoint alarm_at_ = TimePoint::max();
  Subscription alarm_;
};

}  // namespace gpuyard::http
