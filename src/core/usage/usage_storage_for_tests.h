// A storage of the use of leases, without a disk.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/manual_loop_for_tests.h"
#include "core/usage/usage_recorder.h"

namespace gpuyard::usage {

// Keeps rows in memory, and replies when the loop turns.
class FakeUsageStorage final : public UsageStorage {
 public:
  explicit FakeUsageStorage(ManualLoop& loop) : loop_(loop) {}
  bool load(Day, std::set<std::string> leases,
            std::function<void(Result<std::vector<UsageRow>>)> loaded) override {
    ++loads;
    loop_.post([this, leases = std::move(leases), loaded = std::move(loaded)] {
      if (trouble) return loaded(*trouble);
      std::vector<UsageRow> found;
      for (const auto& [key, row] : rows) {
        if (row.lease.empty() || leases.contains(row.lease)) found.push_back(row);
      }
      loaded(std::move(found));
    });
    return true;
  }
  bool save(UsageTransaction entry, std::function<void(const Result<void>&)> saved) override {
    if (full) return false;
    ++saves;
    loop_.post([this, entry = std::move(entry), saved = std::move(saved)] {
      if (trouble) return saved(*trouble);
      growing = entry.growing_leases;
      for (const UsageRow& row : entry.rows_to_compact) {
        if (rows.erase({row.day, row.lease, row.gpu}) == 0) continue;
        UsageRow& shared = rows[{row.day, "folded:" + std::to_string(row.uid), row.gpu}];
        shared.counters.add(row.counters);
      }
      for (const UsageRow& row : entry.rows)
        rows.insert_or_assign({row.day, row.lease, row.gpu}, row);
      saved({});
    });
    return true;
  }
  bool query(UsageQuery query, std::vector<UsageRow> more,
             std::function<void(Result<UsageReport>)> answered) override {
    if (full) return false;
    asked = query;
    unsaved_rows = std::move(more);
    loop_.post([this, answered = std::move(answered)] { answered(answer); });
    return true;
  }
  std::vector<std::string> notes() const override { return said; }
  std::int64_t energy_of(const std::string& lease) const {
    std::int64_t energy = 0;
    for (const auto& [key, row] : rows) {
      if (row.lease == lease) energy += row.counters.energy_mj;
    }
    return energy;
  }
  std::set<std::string> leases() const {
    std::set<std::string> all;
    for (const auto& [key, row] : rows) all.insert(std::get<1>(key));
    return all;
  }

  std::map<std::tuple<Day, std::string, DeviceId>, UsageRow> rows;
  std::vector<UsageRow> unsaved_rows;
  std::set<std::string> growing;  // at the last save
  std::optional<UsageQuery> asked;
  Result<UsageReport> answer = UsageReport{};
  std::vector<std::string> said{"it began anew"};
  std::optional<Error> trouble;
  bool full = false;
  int loads = 0;
  int saves = 0;

 private:
  ManualLoop& loop_;
};

}  // namespace gpuyard::usage
