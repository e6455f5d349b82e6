#include "cli/top/screen_source.h"

#include <gtest/gtest.h>

#include "gpu/device/catalog.h"

namespace gpuyard::cli::top {
namespace {

// Records the probes of each query, and fails it.
class RecordingSource final : public Source {
 public:
  Result<protocol::Snapshot> snapshot(ProbeSet wanted, OwnerLookup) override {
    queried = wanted;
    return none_;
  }
  Result<protocol::DeviceProcesses> processes(std::uint32_t) override { return none_; }
  Result<protocol::DriverInfo> driver() override { return none_; }
  Result<bool> simulated() override { return none_; }
  Result<protocol::EnergyReport> energy() override { return none_; }
  Result<std::unique_ptr<SourceMeasurement>> begin_measurement(
      const protocol::EnergyWindowRequest&) override {
    return none_;
  }
  std::string name() const override { return "nothing"; }

  ProbeSet queried;

 private:
  const Error none_{Errc::unavailable, "nothing"};
};

ProbeSet probes_queried_for(const ScreenQuery& query) {
  RecordingSource source;
  EXPECT_FALSE(make_screen_source(source)->fetch(query));
  return source.queried;
}

TEST(ScreenSource, QueriesProbesShownOnScreen) {
  const ProbeSet overview = probes_queried_for({});
  EXPECT_TRUE(overview.contains(Probe::ecc_totals));
  EXPECT_TRUE(overview.contains(Probe::processes));
  EXPECT_FALSE(overview.contains(Probe::throttle_reasons));
  EXPECT_FALSE(overview.contains(Probe::clocks));
  EXPECT_EQ(probes_queried_for({.clocks = true}), overview | ProbeSet{Probe::clocks});
  EXPECT_EQ(probes_queried_for({.pane = Pane::gpu}), ProbeSet::all());
}

}  // namespace
}  // namespace gpuyard::cli::top
