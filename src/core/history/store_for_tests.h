// A storage in memory, which a test can break.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/history/history.h"

namespace gpuyard::history {

class FakeMinuteStorage final : public MinuteStorage {
 public:
  Result<void> put(const DaemonRun& present, const std::vector<SeriesMinutes>& minutes) override {
    ++puts;
    if (broken) return *broken;
    run = present;
    for (const SeriesMinutes& some : minutes) stored.push_back(some);
    return {};
  }
  Result<std::vector<RunMinutes>> get(const DaemonRun&, const SeriesKey& key, std::int64_t,
                                      std::int64_t) override {
    if (broken) return *broken;
    asked = key;
    return past;
  }
  std::vector<std::string> notes() const override { return said; }

  std::optional<Error> broken;
  int puts = 0;
  DaemonRun run;
  std::vector<SeriesMinutes> stored;
  SeriesKey asked;
  std::vector<RunMinutes> past;
  std::vector<std::string> said;
};

}  // namespace gpuyard::history
