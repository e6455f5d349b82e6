#include "base/worker.h"

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/manual_worker_for_tests.h"

namespace gpuyard {
namespace {

// A loop for tests that wait for posted work; a ManualLoop is for one thread only.
class PostingLoop final : public Loop {
 public:
  TimePoint now() const override { return BootClock::now(); }
  WallTime wall() const override { return wall_now(); }
  Subscription call_at(TimePoint, std::function<void()>) override { return {}; }
  Subscription watch(int, std::function<void()>) override { return {}; }
  void post(std::function<void()> work) override {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
    arrived_.notify_all();
  }

  // Runs one posted task; false if none came for so long that the test is broken.
  bool run_one() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, std::chrono::seconds(30), [&] { return !posted_.empty(); })) {
      return false;
    }
    const auto work = std::move(posted_.front());
    posted_.erase(posted_.begin());
    lock.unlock();
    work();
    return true;
  }
  std::size_t posted() {
    const std::lock_guard lock(mutex_);
    return posted_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::function<void()>> posted_;
};

TEST(ThreadWorker, TaskRunsOffLoopAndCompletesOnLoop) {
  PostingLoop loop;
  ThreadWorker worker(loop, "test");
  const auto here = std::this_thread::get_id();
  std::thread::id heard_on;
  std::thread::id asked_on;
  ASSERT_TRUE(run_on_worker(
      worker, [] { return std::this_thread::get_id(); },
      [&](std::thread::id id) {
        asked_on = id;
        heard_on = std::this_thread::get_id();
      }));
  ASSERT_TRUE(loop.run_one());
  EXPECT_EQ(heard_on, here);
  EXPECT_NE(asked_on, here);
}

TEST(ThreadWorker, RunsTasksInOrder) {
  PostingLoop loop;
  ThreadWorker worker(loop, "test");
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(
        run_on_worker(worker, [i] { return i; }, [&](int number) { order.push_back(number); }));
  }
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(loop.run_one());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order.at(static_cast<std::size_t>(i)), i);
}

TEST(ThreadWorker, RefusesMoreThanItsQueueHolds) {
  PostingLoop loop;
  std::promise<void> release;
  std::promise<void> begun;
  ThreadWorker worker(loop, "test");
  ASSERT_TRUE(worker.post([&]() -> Worker::Completion {
    begun.set_value();
    release.get_future().wait();
    return nullptr;
  }));
  begun.get_future().wait();
  const auto nothing = []() -> Worker::Completion { return nullptr; };
  for (std::size_t i = 0; i < ThreadWorker::kMaxQueued; ++i) ASSERT_TRUE(worker.post(nothing));
  EXPECT_FALSE(worker.post(nothing));
  release.set_value();
}

TEST(ThreadWorker, DestructionRunsQueuedTasks) {
  PostingLoop loop;
  std::atomic<int> ran = 0;
  {
    ThreadWorker worker(loop, "test");
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(worker.post([&ran]() -> Worker::Completion {
        ++ran;
        return nullptr;
      }));
    }
  }
  EXPECT_EQ(ran, 50);
}

TEST(ThreadWorker, DestructionAbandonsHungTaskAndDropsCompletion) {
  PostingLoop loop;
  const auto release = std::make_shared<std::promise<void>>();
  const auto finished = std::make_shared<std::promise<void>>();
  {
    ThreadWorker worker(loop, "test");
    ASSERT_TRUE(worker.post([release, finished]() -> Worker::Completion {
      release->get_future().wait();
      return [finished] { FAIL() << "nobody is there to hear it"; };
    }));
  }
  release->set_value();
  EXPECT_EQ(loop.posted(), 0U);
}

TEST(ManualWorker, QueuedTaskRunsOnlyOnRunAll) {
  ManualWorker worker;
  int result = 0;
  ASSERT_TRUE(run_on_worker(worker, [] { return 7; }, [&](int number) { result = number; }));
  EXPECT_EQ(result, 0);
  worker.run_all();
  EXPECT_EQ(result, 7);
}

}  // namespace
}  // namespace gpuyard
