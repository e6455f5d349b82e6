#include "base/mutex.h"

#include <condition_variable>
#include <future>
#include <stop_token>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

constexpr std::chrono::seconds kWakeTimeout{30};  // only a broken test waits this long

// Whether another thread could lock it now; the standard forbids try_lock() to the one that holds
// it.
bool is_free(Mutex& mutex) {
  return std::async(std::launch::async,
                    [&mutex] {
                      if (!mutex.try_lock()) return false;
                      mutex.unlock();
                      return true;
                    })
      .get();
}

class Counter {
 public:
  void add() {
    const MutexLock lock(mutex_);
    const int before = value_;
    std::this_thread::yield();
    value_ = before + 1;
    changed_.notify_all();
  }
  int value() {
    const MutexLock lock(mutex_);
    return value_;
  }
  void wait_reached(int least) {
    const MutexLock lock(mutex_);
    changed_.wait(mutex_, [&]() REQUIRES(mutex_) { return value_ >= least; });
  }
  template <class Duration>
  bool wait_reached_for(int least, Duration timeout) {
    const MutexLock lock(mutex_);
    const bool reached =
        changed_.wait_for(mutex_, timeout, [&]() REQUIRES(mutex_) { return value_ >= least; });
    EXPECT_FALSE(is_free(mutex_));
    return reached;
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  int value_ GUARDED_BY(mutex_) = 0;
};

TEST(Mutex, LockExcludesOtherThreads) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 500;
  Counter counter;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&counter] {
        for (int round = 0; round < kRounds; ++round) counter.add();
      });
    }
  }
  EXPECT_EQ(counter.value(), kThreads * kRounds);
}

TEST(MutexLock, HoldsMutexUntilScopeEnd) {
  Mutex mutex;
  {
    const MutexLock lock(mutex);
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(MutexLock, UnlockEndsItEarlierOnce) {
  Mutex mutex;
  {
    MutexLock lock(mutex);
    lock.unlock();
    EXPECT_TRUE(is_free(mutex));
    lock.lock();
    EXPECT_FALSE(is_free(mutex));
    lock.unlock();
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(MutexRelease, RelocksAtScopeEnd) {
  Mutex mutex;
  const MutexLock lock(mutex);
  {
    const MutexRelease released(mutex);
    EXPECT_TRUE(is_free(mutex));
  }
  EXPECT_FALSE(is_free(mutex));
}

TEST(ConditionVariable, NotifyWakesWaitingThread) {
  Counter counter;
  auto reached = std::async(std::launch::async, [&counter] { counter.wait_reached(2); });
  counter.add();
  counter.add();
  EXPECT_EQ(reached.wait_for(kWakeTimeout), std::future_status::ready);
}

TEST(ConditionVariable, WaitForReturnsPredicateWithMutexHeld) {
  Counter counter;
  EXPECT_FALSE(counter.wait_reached_for(1, std::chrono::milliseconds(1)));
  const std::jthread other([&counter] { counter.add(); });
  EXPECT_TRUE(counter.wait_reached_for(1, kWakeTimeout));
}

TEST(Mutex, StopRequestEndsWaitOfConditionVariableAny) {
  Mutex mutex;
  std::condition_variable_any stopped;
  std::stop_source source;
  auto waiting = std::async(std::launch::async, [&] {
    const MutexLock lock(mutex);
    return stopped.wait(mutex, source.get_token(), [] { return false; });
  });
  source.request_stop();
  ASSERT_EQ(waiting.wait_for(kWakeTimeout), std::future_status::ready);
  EXPECT_FALSE(waiting.get());
  EXPECT_TRUE(is_free(mutex));
}

}  // namespace
}  // namespace gpuyard
