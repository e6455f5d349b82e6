// An energy storage and fresh readings of GPUs, both in memory and answered by the test.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/manual_loop_for_tests.h"
#include "core/energy/meter.h"
#include "core/energy/snapshots_for_tests.h"

namespace gpuyard::energy {

// A storage in memory, which replies when the test says so.
class FakeEnergyStorage final : public EnergyStorage {
 public:
  bool load(std::function<void(Result<LedgerState>)> loaded) override {
    ++loads;
    loaded_ = std::move(loaded);
    return true;
  }
  bool save(EnergyTransaction changes, std::function<void(const Result<void>&)> saved) override {
    saves.push_back(std::move(changes));
    saved_.push_back(std::move(saved));
    return true;
  }
  std::vector<std::string> notes() const override { return notes_; }

  void answer_load(Result<LedgerState> books) { std::exchange(loaded_, nullptr)(std::move(books)); }
  void answer_saves(const Result<void>& done = {}) {
    for (const auto& saved : std::exchange(saved_, {})) saved(done);
  }

  int loads = 0;
  std::vector<EnergyTransaction> saves;
  std::vector<std::string> notes_;

 private:
  std::function<void(Result<LedgerState>)> loaded_;
  std::vector<std::function<void(const Result<void>&)>> saved_;
};

class FakeFreshReader final : public FreshReader {
 public:
  explicit FakeFreshReader(ManualLoop& loop) : loop_(loop) {}
  void read_fresh(ProbeSet probes, std::function<void(const Snapshot&)> done) override {
    EXPECT_EQ(probes, kEnergyProbes);
    loop_.post([this, done = std::move(done)] { done(now()); });
  }
  Snapshot now() const { return snapshot_of(gpus, loop_.now(), loop_.wall()); }

  std::vector<TestGpu> gpus{{"GPU-0", 0}};

 private:
  ManualLoop& loop_;
};

}  // namespace gpuyard::energy
