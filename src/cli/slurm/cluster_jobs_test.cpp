#include "cli/slurm/cluster_jobs.h"

#include <gmock/gmock.h>

#include "cli/slurm/fixed_lines_for_tests.h"

namespace gpuyard::cli::slurm {
namespace {

using lease::LeaseState;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Values = std::map<std::string, std::string>;

const WallTime kAt{std::chrono::seconds(1'796'004'500)};  // 2026-11-30T02:08:20Z

// A line of squeue 22.05 for a job of alice's.
std::string squeue_line(const Values& values) {
  Values all = {{"JobArrayID", "17"},     {"JobID", "17"},          {"UserName", "alice"},
                {"UserID", "1000"},       {"State", "PENDING"},     {"SubmitTime", "1796004410"},
                {"StartTime", "N/A"},     {"EndTime", "N/A"},       {"Reason", "Resources"},
                {"NumNodes", "1"},        {"NumTasks", "1"},        {"tres-per-job", "N/A"},
                {"tres-per-node", "N/A"}, {"tres-per-task", "N/A"}, {"tres-per-socket", "N/A"},
                {"Name", "train"}};
  for (const auto& [name, value] : values) all[name] = value;
  return fixed_line(pending_jobs_query().back(), all);
}
std::string running_line(Values values) {
  values.insert({{"State", "RUNNING"},
                 {"NodeList", "n1"},
                 {"Reason", "None"},
                 {"StartTime", "1796004411"},
                 {"EndTime", "1796004711"}});
  return squeue_line(values);
}

ClusterQueue queue_with(const std::string& squeue) {
  auto queue = parse_queue(squeue, kAt);
  EXPECT_TRUE(queue);
  return queue ? *queue : ClusterQueue();
}
ClusterLeases leases_with(const std::string& squeue, std::string_view scontrol = "") {
  auto leases = parse_leases(squeue, scontrol);
  EXPECT_TRUE(leases);
  return leases ? *leases : ClusterLeases();
}

// The part of a line of `scontrol show job -d -o` that has the allocation.
std::string scontrol_line(std::string_view job, std::string_view allocation,
                          std::string_view name = "train") {
  return "JobId=" + std::string(job) + " JobName=" + std::string(name) +
         " UserId=alice(1000) TRES=cpu=1,node=1 CoreSpec=* " + std::string(allocation) +
         " MinCPUsNode=1 Comment=none Power= \n";
}

TEST(ClusterQueue, PendingJobHasReasonAndExpectedStart) {
  const auto queue = queue_with(squeue_line(
      {{"tres-per-node", "gres:gpu:h100:2"}, {"NumNodes", "2"}, {"StartTime", "1796004560"}}));
  ASSERT_THAT(queue.waiting, SizeIs(1));
  EXPECT_EQ(queue.pending_claimers, 1);
  const ClusterJob& job = queue.waiting[0];
  EXPECT_EQ(job.id, "17");
  EXPECT_EQ(job.state, LeaseState::waiting);
  EXPECT_EQ(job.user, "alice");
  EXPECT_EQ(job.uid, 1000U);
  EXPECT_EQ(job.note, "train");
  EXPECT_EQ(job.wanted_gpus, 4);
  EXPECT_THAT(job.types, ElementsAre("h100"));
  EXPECT_EQ(job.asked, "2026-11-30T02:06:50.000Z");
  EXPECT_FALSE(job.granted);
  ASSERT_TRUE(job.place);
  EXPECT_EQ(job.place->position, 1);
  EXPECT_EQ(job.place->why, "Resources");
  EXPECT_THAT(job.place->text, HasSubstr("in use"));
  EXPECT_EQ(job.place->expected_s, 60);
}

TEST(ClusterQueue, PositionsCountOnlyJobsThatAskForGpus) {
  const auto queue = queue_with(squeue_line({{"tres-per-job", "gres:gpu:3"}, {"JobArrayID", "1"}}) +
                                squeue_line({{"JobArrayID", "2"}}) +
                                squeue_line({{"tres-per-node", "gres:craynetwork:1"}}) +
                                squeue_line({{"tres-per-node", "gres:gpu"}, {"JobArrayID", "3"}}));
  ASSERT_THAT(queue.waiting, SizeIs(2));
  EXPECT_EQ(queue.waiting[0].wanted_gpus, 3);
  EXPECT_EQ(queue.waiting[1].id, "3");
  EXPECT_EQ(queue.waiting[1].place->position, 2);
}

TEST(ClusterQueue, GpusPerTaskAreMultipliedAndPerSocketUnknown) {
  const auto queue =
      queue_with(squeue_line({{"tres-per-task", "gres:gpu:4"}, {"NumTasks", "3"}}) +
                 squeue_line({{"tres-per-socket", "gres:gpu:a100:2"}}) +
                 squeue_line({{"tres-per-job", "gres:gpu:" + std::string(90, 'x')}}));
  ASSERT_THAT(queue.waiting, SizeIs(3));
  EXPECT_EQ(queue.waiting[0].wanted_gpus, 12);
  EXPECT_FALSE(queue.waiting[1].wanted_gpus);
  EXPECT_THAT(queue.waiting[1].types, ElementsAre("a100"));
  EXPECT_FALSE(queue.waiting[2].wanted_gpus) << "the list is cut";
}

TEST(ClusterQueue, StartThatHasPassedIsUnknown) {
  const auto queue =
      queue_with(squeue_line({{"tres-per-job", "gres:gpu:1"}, {"StartTime", "1796004499"}}));
  ASSERT_THAT(queue.waiting, SizeIs(1));
  EXPECT_FALSE(queue.waiting[0].place->expected_s);
}

TEST(ClusterQueue, UnknownReasonHasNoExplanation) {
  const auto queue =
      queue_with(squeue_line({{"tres-per-job", "gres:gpu:1"}, {"Reason", "BurstBufferOperation"}}));
  EXPECT_EQ(queue.waiting.at(0).place->why, "BurstBufferOperation");
  EXPECT_EQ(queue.waiting.at(0).place->text, "");
}

TEST(ClusterQueue, ListIsLimitedAndTheRestCounted) {
  std::string squeue;
  for (int i = 0; i < 1003; ++i) squeue += squeue_line({{"tres-per-job", "gres:gpu:1"}});
  const auto queue = queue_with(squeue);
  EXPECT_THAT(queue.waiting, SizeIs(kMaxListedJobs));
  EXPECT_EQ(queue.pending_claimers, 1003);
}

TEST(ClusterQueue, EmptyOutputIsAnEmptyQueue) {
  EXPECT_THAT(queue_with("").waiting, IsEmpty());
  EXPECT_THAT(queue_with("\n").waiting, IsEmpty());
}

TEST(ClusterQueue, MalformedLinesAreReported) {
  const std::string good = squeue_line({{"tres-per-job", "gres:gpu:1"}});
  const auto queue = queue_with(good + "slurm: a remark\n" + good.substr(0, 200));
  EXPECT_THAT(queue.waiting, SizeIs(1));
  EXPECT_THAT(queue.notes, ElementsAre("2 lines of squeue could not be read."));
  for (const Values& wrong :
       {Values{{"UserID", "alice"}}, Values{{"JobID", "x"}}, Values{{"JobID", "123456789012"}},
        Values{{"SubmitTime", "N/A"}}, Values{{"State", ""}}}) {
    const auto refused = parse_queue(squeue_line(wrong), kAt);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::unavailable);
  }
}

TEST(ClusterQueue, NewlineInJobNameAddsNoJob) {
  const std::string fake = squeue_line({{"tres-per-job", "gres:gpu:9"}});
  const auto queue =
      queue_with(squeue_line({{"tres-per-job", "gres:gpu:1"}, {"Name", "a\n" + fake}}));
  ASSERT_THAT(queue.waiting, SizeIs(1));
  EXPECT_EQ(queue.waiting[0].wanted_gpus, 1);
  EXPECT_THAT(queue.waiting[0].note, HasSubstr("a?17"));
}

TEST(ClusterLeases, JobHasItsAllocationByHost) {
  const auto leases = leases_with(
      running_line({{"tres-per-node", "gres:gpu:1"}, {"NumNodes", "2"}, {"NodeList", "n[1-2]"}}),
      scontrol_line("17",
                    "JOB_GRES=gpu:h100:1,gpu:h100_nvl:1   Nodes=n1 CPU_IDs=1 Mem=0 "
                    "GRES=gpu:h100:0(IDX:),gpu:h100_nvl:1(IDX:2)   Nodes=n2 CPU_IDs=0 Mem=0 "
                    "GRES=gpu:h100:1(IDX:0),gpu:h100_nvl:0(IDX:)"));
  ASSERT_THAT(leases.leases, SizeIs(1));
  const ClusterJob& job = leases.leases[0];
  EXPECT_EQ(job.state, LeaseState::held);
  EXPECT_EQ(job.wanted_gpus, 2);
  EXPECT_THAT(job.types, ElementsAre("h100", "h100_nvl"));
  EXPECT_EQ(job.hosts, "n[1-2]");
  EXPECT_EQ(job.granted, "2026-11-30T02:06:51.000Z");
  EXPECT_EQ(job.until, "2026-11-30T02:11:51.000Z");
  EXPECT_FALSE(job.place);
  ASSERT_THAT(job.allocated, SizeIs(2));
  EXPECT_EQ(job.allocated[0].hosts, "n1");
  EXPECT_EQ(job.allocated[0].type, "h100_nvl");
  EXPECT_THAT(job.allocated[0].indexes, ElementsAre(2));
  EXPECT_EQ(job.allocated[1].hosts, "n2");
}

TEST(ClusterLeases, JobWithoutGpusHasNoLease) {
  EXPECT_THAT(leases_with(running_line({}), scontrol_line("17",
                                                          "JOB_GRES=(null)   Nodes=n1 "
                                                          "CPU_IDs=2 Mem=0 GRES="))
                  .leases,
              IsEmpty());
  EXPECT_THAT(leases_with(running_line({})).leases, IsEmpty());
}

TEST(ClusterLeases, AllocationWithoutScontrolIsUnknown) {
  const auto leases = leases_with(running_line({{"tres-per-job", "gres:gpu:h100:2"}}));
  ASSERT_THAT(leases.leases, SizeIs(1));
  EXPECT_EQ(leases.leases[0].wanted_gpus, 2);
  EXPECT_THAT(leases.leases[0].allocated, IsEmpty());
}

TEST(ClusterLeases, EndingJobIsDraining) {
  const auto leases =
      leases_with(running_line({{"tres-per-job", "gres:gpu:2"}, {"State", "COMPLETING"}}));
  EXPECT_EQ(leases.leases.at(0).state, LeaseState::draining);
  EXPECT_EQ(leases.leases.at(0).slurm_state, "COMPLETING");
}

TEST(ClusterLeases, ForgedAllocationIsIgnored) {
  const std::string real =
      "JOB_GRES=gpu:h100:2   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:h100:2(IDX:0-1)";
  const std::string false_one = "JOB_GRES=gpu:h100:8   Nodes=n9 CPU_IDs=0 Mem=0 GRES=gpu:h100:8";
  const std::string squeue = running_line({{"tres-per-job", "gres:gpu:h100:2"}});
  for (const std::string& scontrol :
       {scontrol_line("17", real, "x " + false_one),
        scontrol_line("17", real, "x\nJobId=17 " + false_one),
        scontrol_line("17", real) + scontrol_line("18", real, "x\nJobId=17 " + false_one)}) {
    const auto leases = leases_with(squeue, scontrol);
    ASSERT_THAT(leases.leases, SizeIs(1));
    EXPECT_EQ(leases.leases[0].wanted_gpus, 2);
    EXPECT_THAT(leases.leases[0].allocated, IsEmpty()) << scontrol;
  }
}

TEST(ClusterLeases, MalformedAllocationIsUnknown) {
  const std::string squeue = running_line({{"tres-per-job", "gres:gpu:h100:2"}});
  for (const char* const allocation :
       {"JOB_GRES=gpu:h100:2(", "JOB_GRES=gpu:h100:2   Nodes=n1 CPU_IDs=0",
        "JOB_GRES=gpu:h100:2   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:h100:2(IDX:0", "JOB_GRES="}) {
    const auto leases = leases_with(squeue, scontrol_line("17", allocation));
    EXPECT_THAT(leases.leases.empty() ? std::vector<ClusterGpus>() : leases.leases[0].allocated,
                IsEmpty())
        << allocation;
  }
}

}  // namespace
}  // namespace gpuyard::cli::slurm
