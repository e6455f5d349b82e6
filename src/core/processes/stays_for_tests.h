// An archive of stays in memory, which a test can break.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "processes/stays.h"

namespace gpuyard::processes {

class FakeStayArchive final : public StayArchive {
 public:
  Result<void> put(const std::vector<Stay>& stays) override {
    ++puts;
    if (broken) return *broken;
    for (const Stay& stay : stays) {
      std::erase_if(kept, [&](const Stay& one) {
        return one.gpu == stay.gpu && one.pid == stay.pid &&
               one.started_boot_ms == stay.started_boot_ms;
      });
      kept.push_back(stay);
    }
    return {};
  }
  Result<std::vector<Stay>> get(const StaysQuestion& asked) override {
    if (broken) return *broken;
    std::vector<Stay> found;
    std::ranges::copy_if(kept, std::back_inserter(found), [&](const Stay& stay) {
      return stay.last_seen >= asked.from && stay.first_seen < asked.until;
    });
    return found;
  }

  std::optional<Error> broken;
  int puts = 0;
  std::vector<Stay> kept;
};

}  // namespace gpuyard::processes
