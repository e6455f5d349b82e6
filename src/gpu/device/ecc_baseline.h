// Which of a GPU's uncorrectable memory errors are new: growth of the driver's counter since
// somebody last acknowledged it.
#pragma once

#include <cstdint>
#include <set>

#include "device/metric.h"

namespace gpuyard {

class EccBaseline {
 public:
  // The counter as it is now. The first one is the baseline: what happened before we looked is not
  // new. A counter that fell was cleared, and another `source` is another counter: each starts
  // over.
  void count(Metric source, std::int64_t total);

  // What happened so far is known.
  void acknowledge();

  // The hardware contained one of the errors (Xid 94): it costs this process and nothing else.
  void contained(std::uint32_t pid);
  // The same, but nobody says which of these it was: all have to end.
  void contained_in_one_of(const std::set<std::uint32_t>& pids);
  // Now somebody does.
  void it_was(std::uint32_t pid);
  // The process has ended, and what was contained with it.
  void process_gone(std::uint32_t pid);
  std::set<std::uint32_t> waiting_for() const;

  // Neither acknowledged nor contained.
  std::int64_t fresh() const;

 private:
  void start_over(std::int64_t base);

  Metric source_{};
  bool counted_ = false;
  std::int64_t base_ = 0;
  std::int64_t total_ = 0;
  std::int64_t contained_ = 0;
  std::set<std::uint32_t> waiting_;
  std::set<std::uint32_t> suspects_;
};

}  // namespace gpuyard
