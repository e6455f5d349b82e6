// A Worker whose jobs run on the test's own thread when the test says so.
#pragma once

#include <deque>
#include <utility>

#include "base/worker.h"

namespace gpuyard {

class ManualWorker final : public Worker {
 public:
  bool post(Job job) override {
    if (full) return false;
    jobs_.push_back(std::move(job));
    return true;
  }

  // Runs all waiting jobs and the work they return; also jobs posted meanwhile.
  void run_all() {
    while (!jobs_.empty()) run_one();
  }
  void run_one() {
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    if (const Afterwards afterwards = job()) afterwards();
  }
  std::size_t waiting() const { return jobs_.size(); }

  bool full = false;

 private:
  std::deque<Job> jobs_;
};

}  // namespace gpuyard
