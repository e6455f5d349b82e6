#include "cli/slurm/cluster_table.h"

#include <gmock/gmock.h>

#include "cli/slurm/job_reason.h"

namespace gpuyard::cli::slurm {
namespace {

using testing::HasSubstr;

const WallTime kTableTime{std::chrono::seconds(1'796'004'500)};  // 2026-11-30T02:08:20Z

ClusterJob job_with_gpus() {
  ClusterJob job;
  job.id = "17";
  job.state = lease::LeaseState::held;
  job.slurm_state = "RUNNING";
  job.user = "alice";
  job.note = "train";
  job.wanted_gpus = 2;
  job.types = {"h100"};
  job.hosts = "n1";
  job.allocated = {{"n1", "h100", 2, {0, 1}}};
  job.asked = "2026-11-30T02:00:00.000Z";
  job.granted = "2026-11-30T02:06:51.000Z";
  job.until = "2026-11-30T02:11:51.000Z";
  return job;
}

TEST(ClusterTable, QueueHasPositionReasonAndExpectedStart) {
  ClusterQueue queue;
  queue.pending_claimers = 3;
  ClusterJob job = job_with_gpus();
  job.place = {1, "Priority", "jobs of higher priority are ahead", 3600};
  queue.waiting = {job, job};
  queue.waiting[1].place = {2, "Prolog", "", {}};
  queue.waiting[1].wanted_gpus.reset();
  EXPECT_EQ(
      cluster_queue_text(queue, kTableTime, {}).str(),
      "POSITION  USER   REQUESTS       SINCE (UTC)  EXPECTED START  REASON                        "
      "               NAME   ID\n"
      "       1  alice  2 GPUs (h100)  02:00        03:08           Priority: jobs of higher "
      "priority are ahead  train  17\n"
      "       2  alice  GPUs (h100)    02:00        -               Prolog                        "
      "               train  17\n"
      "1 more waiting.\n");
}

TEST(ClusterTable, LeaseHasIndexesPerHost) {
  ClusterLeases leases;
  leases.leases = {job_with_gpus(), job_with_gpus(), job_with_gpus()};
  leases.leases[1].hosts = "n[1-2]";
  leases.leases[1].allocated = {
      {"n1", "h100", 1, {3}}, {"n2", "h100", 1, {0}}, {"n2", "a", 1, {5}}};
  leases.leases[2].allocated.clear();
  leases.leases[2].slurm_state = "COMPLETING";
  leases.leases[2].until.reset();
  EXPECT_EQ(cluster_leases_text(leases, kTableTime, {}).str(),
            "NODES   GPUS           INDEXES         USER   STATE       SINCE (UTC)  UNTIL (UTC)  "
            "NAME   ID\n"
            "n1      2 GPUs (h100)  0,1             alice  running     02:06        02:11        "
            "train  17\n"
            "n[1-2]  2 GPUs (h100)  n1: 3; n2: 0,5  alice  running     02:06        02:11        "
            "train  17\n"
            "n1      2 GPUs (h100)  -               alice  completing  02:06        -            "
            "train  17\n");
}

TEST(ClusterTable, UnavailableNodeShowsStateAndReason) {
  ClusterFree answer;
  answer.nodes = {{"n1", "mixed", true, "", {{"h100", 2, 1}, {"", 1, 0}}},
                  {"n2", "idle+drain", false, "bad fan", {{"h100", 2, {}}}}};
  EXPECT_EQ(cluster_free_text(answer, {}).str(),
            "NODE  TYPE  FREE  TOTAL  STATE       REASON\n"
            "n1    h100     1      2  mixed\n"
            "n1    -        0      1  mixed\n"
            "n2    h100     -      2  idle+drain  bad fan\n");
}

TEST(ClusterTable, EmptyAnswerIsASentenceWithNotes) {
  ClusterQueue queue;
  queue.notes = {"1 line of squeue could not be read."};
  EXPECT_EQ(cluster_queue_text(queue, kTableTime, {}).str(),
            "No jobs are waiting for GPUs.\n1 line of squeue could not be read.\n");
  EXPECT_EQ(cluster_leases_text({}, kTableTime, {}).str(), "No jobs have GPUs.\n");
  EXPECT_EQ(cluster_free_text({}, {}).str(), "No node has GPUs.\n");
}

TEST(JobReason, LongerReasonIsExplainedBeforeItsPrefix) {
  EXPECT_THAT(explain_reason("DependencyNeverSatisfied"), HasSubstr("has failed"));
  EXPECT_THAT(explain_reason("Dependency"), HasSubstr("not ended"));
  EXPECT_THAT(explain_reason("ReservationDeleted"), HasSubstr("deleted"));
  EXPECT_THAT(explain_reason("QOSMaxGRESPerUser"), HasSubstr("QOS"));
  EXPECT_THAT(explain_reason("AssocGrpGRES"), HasSubstr("account"));
  EXPECT_EQ(explain_reason("ProcessAccounting"), "");
  EXPECT_EQ(explain_reason(""), "");
}

}  // namespace
}  // namespace gpuyard::cli::slurm
