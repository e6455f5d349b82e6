#include "gpu/device/ecc_baseline.h"

#include <algorithm>

namespace gpuyard {

void EccBaseline::restore(const EccState& state, bool rebooted) {
  source_ = state.source;
  base_ = rebooted ? state.total : state.base;
  total_ = state.total;
  rebooted_ = rebooted;
  if (rebooted) return;
  since_load_ = state.since_load;
  contained_ = state.contained;
  contained_pids_ = {state.contained_pids.begin(), state.contained_pids.end()};
  suspects_ = {state.suspects.begin(), state.suspects.end()};
}

EccState EccBaseline::state() const {
  return {source_,
          base_,
          total_,
          since_load_,
          contained_,
          {contained_pids_.begin(), contained_pids_.end()},
          {suspects_.begin(), suspects_.end()}};
}

void EccBaseline::restart(std::int64_t base) {
  base_ = base;
  contained_ = 0;
}

// Errors from before the reset are known; those since then are in both counters.
void EccBaseline::on_reset(Metric source, std::int64_t since_load) {
  const std::int64_t before = source == Metric::ecc_uncorrected_volatile ? 0 : base_;
  restart(std::clamp(total_ - since_load, std::min(before, total_), total_));
}

void EccBaseline::update(Metric source, std::int64_t total,
                         std::optional<std::int64_t> since_load) {
  const bool first = !source_;
  const bool fell = source_ == source && total < total_;
  const bool was_reset = since_load && (rebooted_ || (since_load_ && *since_load < *since_load_));
  if (first) {
    restart(total);
  } else if (source != source_) {
    base_ = total - (total_ - base_);
  } else if (fell) {
    restart(0);  // the counter was cleared; its errors came after that
  }
  source_ = source;
  total_ = total;
  if (was_reset && !first) on_reset(source, *since_load);
  if (since_load) since_load_ = since_load;
  rebooted_ = rebooted_ && !since_load;
}

void EccBaseline::acknowledge() {
  restart(total_);
  contained_pids_.clear();
  suspects_.clear();
}

void EccBaseline::add_contained(std::uint32_t pid) {
  ++contained_;
  contained_pids_.insert(pid);
}

void EccBaseline::add_contained_suspects(const std::set<std::uint32_t>& pids) {
  ++contained_;
  suspects_.insert(pids.begin(), pids.end());
}

void EccBaseline::identify_contained(std::uint32_t pid) {
  suspects_.clear();
  contained_pids_.insert(pid);
}

void EccBaseline::remove_process(std::uint32_t pid) {
  contained_pids_.erase(pid);
  suspects_.erase(pid);
}

std::set<std::uint32_t> EccBaseline::contained_pids() const {
  std::set<std::uint32_t> all = contained_pids_;
  all.insert(suspects_.begin(), suspects_.end());
  return all;
}

std::int64_t EccBaseline::new_errors() const {
  return std::max(std::int64_t{0}, total_ - base_ - contained_);
}

}  // namespace gpuyard
