#include "gpu/telemetry/fresh_reads.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "gpu/device/catalog.h"

namespace gpuyard::telemetry {
namespace {

// A fresh read begins so many turns of the loop after its first caller: some microseconds where
// nothing else is ready. The clients of the read before, which have just been answered, then share
// it with those that waited meanwhile, and do not need a read of their own.
constexpr int kFreshReadTurns = 6;

bool has_answered(const PollState& poll_state, const FreshRead& fresh_read) {
  bool all = true;
  fresh_read.probes.each([&](Probe probe) {
    for (const Metric metric : row_of(probe).fills) {
      const Reading* const reading = poll_state.sample().find(metric);
      all = all && reading != nullptr && reading->taken >= fresh_read.began_at;
    }
  });
  return all;
}

}  // namespace

bool is_covered(const PollState& poll_state, const FreshRead& fresh_read) {
  return fresh_read.every_gpu || fresh_read.gpus.contains(poll_state.info().id);
}

Sample fresh_part(const Sample& sample, const FreshRead& fresh_read) {
  Sample part;
  fresh_read.probes.each([&](Probe probe) {
    for (const Metric metric : row_of(probe).fills) {
      for (const Reading& reading : sample.all(metric)) {
        if (reading.taken >= fresh_read.began_at) part.set(reading);
      }
    }
  });
  const auto& list = sample.processes();
  const bool listed = fresh_read.probes.contains(Probe::processes) && list.has_value();
  if (listed && list->taken >= fresh_read.began_at) part.set(*list);
  return part;
}

void FreshReads::join(FreshRead read) {
  next_.probes = next_.probes | read.probes;
  next_.every_gpu = next_.every_gpu || read.every_gpu;
  next_.gpus.merge(read.gpus);
  std::ranges::move(read.callers, std::back_inserter(next_.callers));
  if (!is_reading()) schedule();
}

void FreshReads::schedule() {
  if (!std::exchange(scheduled_, true)) begin_after(kFreshReadTurns);
}

void FreshReads::begin_after(int turns) {
  loop_.post(lifetime_.guard([this, turns] {
    if (turns > 1) return begin_after(turns - 1);
    scheduled_ = false;
    begin();
  }));
}

void FreshReads::begin() {
  current_ = std::exchange(next_, {});
  current_.began_at = loop_.now();
  timeout_ = loop_.call_after(kFreshReadTimeout, [this] { finish(); });
  query_(current_);
}

void FreshReads::finish_if_complete(const std::vector<PollState>& poll_states) {
  if (!is_reading()) return;
  const bool complete = std::ranges::all_of(poll_states, [&](const PollState& poll_state) {
    return !is_covered(poll_state, current_) || !poll_state.is_readable() ||
           poll_state.is_unresponsive(loop_.now()) || has_answered(poll_state, current_);
  });
  if (complete) finish();
}

void FreshReads::finish() {
  if (!is_reading()) return;
  timeout_.reset();
  const FreshRead finished = std::exchange(current_, {});
  const auto result = std::make_shared<const Snapshot>(assemble_(finished));
  for (const OnFreshRead& on_done : finished.callers) on_done(result);
  if (!next_.callers.empty()) schedule();
}

}  // namespace gpuyard::telemetry
