#include "device/failure.h"

#include <set>
#include <string>

namespace gpuyard {

bool is_failure(MissingReason reason) {
  return reason != MissingReason::not_supported && reason != MissingReason::not_ready;
}

std::vector<Missing> failures(const Sample& sample) {
  std::set<std::string> causes;
  std::vector<Missing> found;
  for (const Reading& reading : sample.readings()) {
    const Missing* missing = reading.missing();
    if (missing == nullptr || !is_failure(missing->reason)) continue;
    if (causes.insert(describe(*missing)).second) found.push_back(*missing);
  }
  return found;
}

}  // namespace gpuyard
