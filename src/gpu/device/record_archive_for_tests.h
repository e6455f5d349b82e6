// An archive in memory, which a test can break.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "gpu/device/record_archive.h"

namespace gpuyard {

template <class Record>
class FakeRecordArchive final : public RecordArchive<Record> {
 public:
  Result<void> put(const std::vector<Record>& records) override {
    ++puts;
    if (broken) return *broken;
    for (const Record& record : records) {
      std::erase_if(kept, [&](const Record& one) { return one.name() == record.name(); });
      kept.push_back(record);
    }
    return {};
  }
  Result<std::vector<Record>> get(const RecordQuery<Record>& query) override {
    if (broken) return *broken;
    std::vector<Record> found;
    std::ranges::copy_if(kept, std::back_inserter(found),
                         [&](const Record& record) { return query.matches(record); });
    return found;
  }

  std::optional<Error> broken;
  int puts = 0;
  std::vector<Record> kept;
};

}  // namespace gpuyard
