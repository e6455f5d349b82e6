#include "gpu/device/ecc_baseline.h"

#include <algorithm>

namespace gpuyard {

namespace {

void insert_sorted(std::vector<std::uint32_t>& pids, std::uint32_t pid) {
  const auto at = std::ranges::lower_bound(pids, pid);
  if (at == pids.end() || *at != pid) pids.insert(at, pid);
}

}  // namespace

void EccBaseline::restore(const EccState& state, bool rebooted) {
  state_ = rebooted ? EccState{state.source, state.total, state.total} : state;
  rebooted_ = rebooted;
}

void EccBaseline::restart(std::int64_t base) {
  state_.base = base;
  state_.contained = 0;
}

// Errors from before the reset are known; those since then are in both counters.
void EccBaseline::on_reset(Metric source, std::int64_t since_load) {
  const std::int64_t before = source == Metric::ecc_uncorrected_volatile ? 0 : state_.base;
  restart(std::clamp(state_.total - since_load, std::min(before, state_.total), state_.total));
}

void EccBaseline::update(Metric source, std::int64_t total,
                         std::optional<std::int64_t> since_load) {
  const bool first = !state_.source;
  const bool fell = state_.source == source && total < state_.total;
  const bool was_reset =
      since_load && (rebooted_ || (state_.since_load && *since_load < *state_.since_load));
  if (first) {
    restart(total);
  } else if (source != state_.source) {
    state_.base = total - (state_.total - state_.base);
  } else if (fell) {
    restart(0);  // the counter was cleared; its errors came after that
  }
  state_.source = source;
  state_.total = total;
  if (was_reset && !first) on_reset(source, *since_load);
  if (since_load) state_.since_load = since_load;
  rebooted_ = rebooted_ && !since_load;
}

void EccBaseline::acknowledge() {
  restart(state_.total);
  state_.contained_pids.clear();
  state_.suspects.clear();
}

void EccBaseline::add_contained(std::uint32_t pid) {
  ++state_.contained;
  insert_sorted(state_.contained_pids, pid);
}

void EccBaseline::add_contained_suspects(const std::set<std::uint32_t>& pids) {
  ++state_.contained;
  for (const std::uint32_t pid : pids) insert_sorted(state_.suspects, pid);
}

void EccBaseline::identify_contained(std::uint32_t pid) {
  state_.suspects.clear();
  insert_sorted(state_.contained_pids, pid);
}

void EccBaseline::remove_process(std::uint32_t pid) {
  std::erase(state_.contained_pids, pid);
  std::erase(state_.suspects, pid);
}

std::set<std::uint32_t> EccBaseline::contained_pids() const {
  std::set<std::uint32_t> all(state_.contained_pids.begin(), state_.contained_pids.end());
  all.insert(state_.suspects.begin(), state_.suspects.end());
  return all;
}

std::int64_t EccBaseline::new_errors() const {
  return std::max(std::int64_t{0}, state_.total - state_.base - state_.contained);
}

}  // namespace gpuyard
