// A Worker whose tasks run on the test's own thread when the test says so.
#pragma once

#include <deque>
#include <utility>

#include "base/worker.h"

namespace gpuyard {

class ManualWorker final : public Worker {
 public:
  bool post(Task task) override {
    if (full) return false;
    tasks_.push_back(std::move(task));
    return true;
  }

  // Runs all waiting tasks and the work they return; also tasks posted meanwhile.
  void run_all() {
    while (!tasks_.empty()) run_one();
  }
  void run_one() {
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    if (const Completion afterwards = task()) afterwards();
  }
  std::size_t waiting() const { return tasks_.size(); }

  bool full = false;

 private:
  std::deque<Task> tasks_;
};

}  // namespace gpuyard
