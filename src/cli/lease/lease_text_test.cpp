#include "cli/lease/lease_text.h"

#include <gtest/gtest.h>

namespace gpuyard::cli {
namespace {

using gpuyard::lease::Ending;

protocol::Lease lease_of_one_gpu() {
  protocol::Lease lease;
  lease.state = gpuyard::lease::State::held;
  lease.gpus = {{3, "GPU-3", "0000:03:00.0", "NVIDIA H100", {}, {}}};
  return lease;
}

TEST(LeaseText, NamesItsGpus) {
  protocol::Lease lease = lease_of_one_gpu();
  EXPECT_EQ(gpus_text(lease.gpus), "GPU 3 (H100)");
  lease.gpus.push_back({5, "GPU-5", "", "NVIDIA H100", {}, {}});
  EXPECT_EQ(gpus_text(lease.gpus), "GPUs 3, 5 (H100)");
}

TEST(LeaseText, ALengthIsAsExactAsPeopleNeedIt) {
  EXPECT_EQ(length_text(0.04), "0.0 s");
  EXPECT_EQ(length_text(9.94), "9.9 s");
  EXPECT_EQ(length_text(45), "45 s");
  EXPECT_EQ(length_text(720), "12 min");
  EXPECT_EQ(length_text(7500), "2 h 05 min");
  EXPECT_EQ(length_text(3 * 86400 + 4 * 3600), "3 d 4 h");
}

TEST(LeaseText, WhoWaitsHasAPlaceAReasonAndPerhapsAnEstimate) {
  protocol::Lease lease;
  lease.wanted_gpus = 2;
  EXPECT_EQ(waiting_text(lease), "waiting for 2 GPUs");
  lease.place = {3, "busy", "All are in use.", {}};
  EXPECT_EQ(waiting_text(lease), "waiting for 2 GPUs: place 3, All are in use");
  lease.place->expected_s = 720;
  EXPECT_EQ(waiting_text(lease), "waiting for 2 GPUs: place 3, All are in use; about 12 min");
}

TEST(LeaseText, WhatIsUnmetIsACondition) {
  protocol::Lease lease;
  for (const Ending ending : {Ending::none_free, Ending::gave_up, Ending::cancelled, Ending::forced,
                              Ending::unreachable, Ending::node_reboot}) {
    lease.ending = ending;
    EXPECT_EQ(exit_code_of(unmet(lease, {}).code), 7) << enum_name(ending);
  }
}

TEST(LeaseText, ASummaryHasTimeEnergyMemoryAndUtilisation) {
  protocol::Lease lease = lease_of_one_gpu();
  lease.use = {3720, 1'500'000, false, 87.2, std::int64_t{5} << 30, 0, 0};
  EXPECT_EQ(summary_text(lease, 3720),
            "62 min on GPU 3 (H100), 1.5 kJ, peak 5.0 GiB, mean utilisation 87 %");
}

TEST(LeaseText, WhatNobodyMeasuredIsUnknownAndNotZero) {
  protocol::Lease lease = lease_of_one_gpu();
  EXPECT_EQ(summary_text(lease, 60), "60 s on GPU 3 (H100); what it used is not known");
  lease.use.emplace();
  EXPECT_EQ(summary_text(lease, 60),
            "60 s on GPU 3 (H100), energy not known, peak memory not known, utilisation not known");
  lease.use = {60, 1'500'000, true, 87.2, std::int64_t{5} << 30, 0, 20};
  EXPECT_NE(summary_text(lease, 60).find("1.5 kJ (estimated) (20 s of GPU time not known)"),
            std::string::npos);
}

TEST(LeaseText, NothingAStrangerWroteControlsTheTerminal) {
  protocol::Lease lease = lease_of_one_gpu();
  lease.ending = Ending::forced;
  lease.why = "\x1b[2J";
  lease.gpus[0].name = "\x1b[2J";
  EXPECT_EQ(ending_text(lease).find('\x1b'), std::string::npos);
  EXPECT_EQ(gpus_text(lease.gpus).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace gpuyard::cli
