#include "telemetry/query_errors.h"

#include <set>

#include "base/log.h"

namespace gpuyard::telemetry {
namespace {

bool is_error(MissingReason reason) {
  return reason != MissingReason::not_supported && reason != MissingReason::not_ready;
}

}  // namespace

void QueryErrors::note(const DeviceInfo& info, const Sample& sample) {
  std::set<std::string> causes;  // one lost GPU fails every row for one cause
  for (const Reading& reading : sample.readings()) {
    const Missing* missing = reading.missing();
    if (missing == nullptr || !causes.insert(describe(*missing)).second) continue;
    note(info, *missing);
  }
}

void QueryErrors::note(const DeviceInfo& info, const Missing& missing) {
  if (!is_error(missing.reason)) return;
  std::string cause = describe(missing);
  if (counts_.size() >= kMaxCauses && !counts_.contains({info.id, cause})) cause = "another cause";
  if (++counts_[{info.id, cause}] == 1) {
    log::error("Error querying GPU device {}: {}", info.index, cause);
  }
}

std::uint64_t QueryErrors::count(const DeviceId& id) const {
  std::uint64_t total = 0;
  for (const auto& [key, count] : counts_) {
    if (key.first == id) total += count;
  }
  return total;
}

}  // namespace gpuyard::telemetry
