#include "cli/lease/lease_table.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "cli/lease/lease_text.h"
#include "cli/read/reader_for_tests.h"

namespace gpuyard::cli {
namespace {

protocol::Lease lease_of_two_gpus() {
  protocol::Lease lease;
  lease.id = "a1";
  lease.state = gpuyard::lease::LeaseState::held;
  lease.user = "alice";
  lease.pid = 4711;
  lease.note = "train";
  lease.gpus = {{0, "GPU-0", "", "NVIDIA H100", 80, {}}, {2, "GPU-2", "", "NVIDIA H100", 40, {}}};
  lease.use = {std::chrono::minutes(1), 1'500'000, false, {}, 50, 1, Duration::zero()};
  return lease;
}

TEST(LeaseTable, RowHasHolderGpusAndUsage) {
  protocol::Leases leases;
  leases.leases = {lease_of_two_gpus()};
  EXPECT_EQ(lease_table(leases, kNow, {}),
            "GPUS  USER    PID  STATE  SINCE (UTC)  UNTIL (UTC)  UTIL  IDLE  ENERGY  NOTE   ID\n"
            "0,2   alice  4711  held   -            -            60 %   0 s  1.5 kJ  train  a1\n");
}

TEST(LeaseTable, UnknownValuesAreDashes) {
  protocol::Leases leases;
  leases.leases = {lease_of_two_gpus()};
  leases.leases[0].gpus[1].utilization_percent.reset();
  leases.leases[0].use.reset();
  leases.leases[0].pid.reset();
  EXPECT_EQ(lease_table(leases, kNow, {}),
            "GPUS  USER   PID  STATE  SINCE (UTC)  UNTIL (UTC)  UTIL  IDLE  ENERGY  NOTE   ID\n"
            "0,2   alice    -  held   -            -               -     -       -  train  a1\n");
}

TEST(LeaseTable, LeaseOfAPodNamesThePod) {
  protocol::Leases leases;
  leases.leases = {lease_of_two_gpus()};
  leases.leases[0].user = "(pods)";
  leases.leases[0].pod = "ml/trainer-0";
  EXPECT_THAT(lease_table(leases, kNow, {}).str(), testing::HasSubstr("\n0,2   ml/trainer-0 "));
  EXPECT_THAT(lease_page(leases.leases[0], kNow).str(),
              testing::HasSubstr("\npod         ml/trainer-0\n"));
}

TEST(LeaseTable, WithoutLeasesIsASentence) {
  EXPECT_EQ(lease_table({}, kNow, {}), "No leases.\n");
}

TEST(LeaseTable, DrainingLeaseHasReason) {
  protocol::Leases leases;
  leases.leases = {lease_of_two_gpus()};
  leases.leases[0].state = gpuyard::lease::LeaseState::draining;
  leases.leases[0].detail = "process 4712 is still there";
  EXPECT_NE(lease_table(leases, kNow, {}).str().find("draining"), std::string::npos);
  EXPECT_NE(lease_table(leases, kNow, {}).str().find("train; process 4712 is still there"),
            std::string::npos);
}

TEST(UsageTable, UnmeasuredEnergyIsDashOrRemark) {
  protocol::Usage usage;
  usage.by = "user";
  usage.rows = {{"alice", 1000, 12.5, 3.25, false, 87.0, std::int64_t{5} << 30, 4, 0.5, {}},
                {"bob", 1001, 1, {}, false, {}, {}, 1, 1, {}}};
  usage.unleased.gpu_hours = 2;
  usage.unleased.energy_kwh = 1;
  usage.notes = {"usage.db began anew"};
  EXPECT_EQ(usage_table(usage, {}),
            "USER        LEASES  GPU-HOURS     ENERGY  MEAN UTIL  PEAK MEMORY  REMARKS\nalice      "
            "      4      12.50  3.250 kWh       87 %      5.0 GiB  energy unknown for 0.50 "
            "GPU-hours\nbob              1       1.00          -          -            -\n(no "
            "lease)       0       2.00  1.000 kWh          -            -\nusage.db began anew\n");
}

TEST(UsageTable, LeasesOfNoPodHaveOneRow) {
  protocol::Usage usage;
  usage.by = "pod";
  usage.rows = {{"ml/trainer", {}, 2, 1, false, {}, {}, 1, 0, {}},
                {"", {}, 1, 1, false, {}, {}, 1, 0, {}}};
  EXPECT_THAT(usage_table(usage, {}).str(), testing::StartsWith("POD "));
  EXPECT_THAT(usage_table(usage, {}).str(), testing::HasSubstr("(no pod) "));
  usage.by = "pod_namespace";
  EXPECT_THAT(usage_table(usage, {}).str(), testing::StartsWith("NAMESPACE "));
  EXPECT_EQ(usage_grouping_of("namespace"), gpuyard::usage::UsageGrouping::pod_namespace);
}

TEST(UsageTable, LittleEnergyAndTimeAreNotZero) {
  const auto row = [](double hours, double kwh) {
    protocol::Usage usage;
    usage.by = "user";
    usage.rows = {{"alice", 1000, hours, kwh, false, {}, {}, 1, 0, {}}};
    return usage_table(usage, {});
  };
  EXPECT_THAT(row(0.5, 0.0125), testing::HasSubstr(" 0.50  12.5 Wh "));
  EXPECT_THAT(row(0.0008, 0.0001), testing::HasSubstr(" <0.01   360 J "));
  EXPECT_THAT(row(0, 0), testing::HasSubstr(" 0.00     0 J "));
  EXPECT_THAT(row(300, 9999.5), testing::HasSubstr(" 300.00  9999.500 kWh "));
}

}  // namespace

namespace {

TEST(QueueRenderer, EmptyQueueSaysNoClaimsAreWaiting) {
  EXPECT_EQ(queue_text({}, kNow, {}), "No claims are waiting.\n");
}

TEST(QueueRenderer, WaitingClaimHasPositionReasonAndEstimate) {
  protocol::Queue queue;
  protocol::Lease lease;
  lease.id = "a1";
  lease.uid = 1000;
  lease.wanted_gpus = 2;
  lease.note = "train";
  lease.place = {1, "busy", "all are in use", 720.0};
  queue.waiting = {lease};
  queue.pending_claimers = 3;
  const std::string text = queue_text(queue, kNow, {});
  EXPECT_NE(text.find("    1  1000  2 GPUs"), std::string::npos) << text;
  EXPECT_NE(text.find("12 min  all are in use  train  a1\n2 more waiting.\n"), std::string::npos)
      << text;
}

TEST(QueueRenderer, UnleasedProcessHasResolvingCommand) {
  protocol::Queue queue;
  queue.squatters = {{4711, 2, "GPU-2", 1000, "alice", "python", std::int64_t{5} << 30, 720.0,
                      "gpuyard lease adopt --pid 4711"}};
  EXPECT_EQ(queue_text(queue, kNow, {}),
            "No claims are waiting.\nGPU 2 is used without a lease by process 4711 (python) of "
            "alice, 5.0 GiB, for 12 min:\n    gpuyard lease adopt --pid 4711\n");
}

TEST(QueueRenderer, NotesComeLast) {
  protocol::Queue queue;
  queue.notes = {"lease night has been draining since yesterday"};
  EXPECT_EQ(queue_text(queue, {}, {}),
            "No claims are waiting.\nlease night has been draining since yesterday\n");
}

TEST(QueueRenderer, WithheldGpuHasReason) {
  EXPECT_EQ(withheld_text({{1, "GPU-1", "cordoned", "cordoned by uid 0: new fan", "uid 0", {}},
                           {2, "GPU-2", "lost", "", {}, {}}},
                          kNow),
            "GPU 1 is withheld from leasing: cordoned by uid 0: new fan\nGPU 2 is withheld from "
            "leasing: lost\n");
}

TEST(LeaseTable, WithoutALeaseIsASentence) {
  EXPECT_EQ(lease_table({}, kNow, {}), "No leases.\n");
}

}  // namespace
}  // namespace gpuyard::cli
