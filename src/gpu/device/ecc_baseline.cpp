#include "device/ecc_baseline.h"

#include <algorithm>

namespace gpuyard {

void EccBaseline::start_over(std::int64_t base) {
  base_ = base;
  contained_ = 0;
}

void EccBaseline::count(Metric source, std::int64_t total) {
  if (!counted_ || source != source_) {
    start_over(total);
  } else if (total < total_) {
    start_over(0);  // cleared; what it counts now came after that
  }
  counted_ = true;
  source_ = source;
  total_ = total;
}

void EccBaseline::acknowledge() {
  start_over(total_);
  waiting_.clear();
  suspects_.clear();
}

void EccBaseline::contained(std::uint32_t pid) {
  ++contained_;
  waiting_.insert(pid);
}

void EccBaseline::contained_in_one_of(const std::set<std::uint32_t>& pids) {
  ++contained_;
  suspects_.insert(pids.begin(), pids.end());
}

void EccBaseline::it_was(std::uint32_t pid) {
  suspects_.clear();
  waiting_.insert(pid);
}

void EccBaseline::process_gone(std::uint32_t pid) {
  waiting_.erase(pid);
  suspects_.erase(pid);
}

std::set<std::uint32_t> EccBaseline::waiting_for() const {
  std::set<std::uint32_t> all = waiting_;
  all.insert(suspects_.begin(), suspects_.end());
  return all;
}

std::int64_t EccBaseline::fresh() const {
  return std::max(std::int64_t{0}, total_ - base_ - contained_);
}

}  // namespace gpuyard
