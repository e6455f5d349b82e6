// Leases of Slurm's jobs: granted at once, over when Slurm says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/lease/lease_fixture_for_tests.h"
#include "core/lease/lease_manager.h"

namespace gpuyard::lease {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint32_t kRoot = 1;  // the number of a process of root

class SlurmYard : public LeaseFixture {
 public:
  explicit SlurmYard(unsigned gpus = 4, GrantMode mode = GrantMode::automatic)
      : LeaseFixture(gpus, {.fairness = {}, .mode = mode}) {
    ground.start(kRoot, 0);
    ground.start(10);
  }
  Result<Lease> begin_job(const std::string& name, std::vector<DeviceId> gpus,
                          std::uint32_t uid = 1000) {
    return heard([&](const LeaseManager::OnLease& answer) {
      leases->begin_job(ground.caller(kRoot), {name, uid, std::move(gpus), "train"}, answer);
    });
  }
  Result<Lease> end_job(const std::string& name) {
    return heard([&](const LeaseManager::OnLease& answer) {
      leases->end_job(ground.caller(kRoot), name, answer);
    });
  }
};

TEST(Jobs, LeaseLastsUntilSlurmReportsEnd) {
  SlurmYard yard;
  const auto held = yard.begin_job("slurm-17", {"GPU-2", "GPU-1"});
  ASSERT_TRUE(held);
  EXPECT_EQ(held->state, LeaseState::held);
  EXPECT_EQ(held->uid, 1000U);
  EXPECT_THAT(held->gpus, ElementsAre("GPU-1", "GPU-2"));
  EXPECT_EQ(job_of(*held), "slurm-17");
  yard.loop.advance(hours(1));  // no process of it is asked for
  EXPECT_EQ(yard.state(held->id), LeaseState::held);
  EXPECT_EQ(yard.leases->find_job("slurm-17")->id, held->id);
  EXPECT_EQ(yard.leases->find_job("slurm-1"), nullptr);
  const auto over = yard.end_job("slurm-17");
  ASSERT_TRUE(over);
  EXPECT_EQ(over->end_reason, EndReason::released);
  yard.loop.advance(seconds(1));
  EXPECT_EQ(yard.state(held->id), LeaseState::ended);
  EXPECT_EQ(yard.end_job("slurm-17").error().code, Errc::not_found) << "an end without a beginning";
}

// The owner of a job ends it through Slurm, not by releasing its lease.
TEST(Jobs, ReleaseIsReservedToAdministrators) {
  SlurmYard yard(1);
  const auto held = yard.begin_job("slurm-17", {"GPU-0"});
  ASSERT_TRUE(held);
  EXPECT_EQ(yard.release(10, held->id).error().code, Errc::denied);
  EXPECT_EQ(yard.state(held->id), LeaseState::held);
  EXPECT_TRUE(yard.release(kRoot, held->id)) << "an administrator may";
}

TEST(Jobs, RepeatedBeginReturnsSameLease) {
  SlurmYard yard;
  const auto first = yard.begin_job("slurm-17", {"GPU-0"});
  const auto again = yard.begin_job("slurm-17", {"GPU-0"});
  ASSERT_TRUE(first && again);
  EXPECT_EQ(first->id, again->id);
}

TEST(Jobs, ANumberThatComesAgainIsAnotherJob) {
  SlurmYard yard;
  const auto first = yard.begin_job("slurm-17", {"GPU-0"});
  const auto of_other_gpus = yard.begin_job("slurm-17", {"GPU-1"});
  const auto of_another_user = yard.begin_job("slurm-17", {"GPU-1"}, 1001);
  ASSERT_TRUE(first && of_other_gpus && of_another_user);
  EXPECT_EQ(yard.leases->find(first->id)->end_reason, EndReason::taken_over);
  EXPECT_EQ(yard.leases->find(of_other_gpus->id)->end_reason, EndReason::taken_over);
  EXPECT_EQ(yard.state(of_another_user->id), LeaseState::held);
  EXPECT_EQ(yard.leases->find_job("slurm-17")->id, of_another_user->id);
}

TEST(Jobs, MissedEndIsInferredFromNextAllocation) {
  SlurmYard yard;
  const auto forgotten = yard.begin_job("slurm-17", {"GPU-0", "GPU-1"});
  const auto next = yard.begin_job("slurm-18", {"GPU-1"});
  ASSERT_TRUE(forgotten && next);
  EXPECT_EQ(yard.state(next->id), LeaseState::held);
  EXPECT_EQ(yard.state(forgotten->id), LeaseState::ended);
  EXPECT_THAT(yard.leases->find(forgotten->id)->detail, HasSubstr("slurm-18"));
}

TEST(Jobs, LeftoverIsNamedWithoutBlockingNextJob) {
  SlurmYard yard(1);
  const auto held = yard.begin_job("slurm-17", {"GPU-0"});
  yard.ground.start(66);
  yard.ground.running.at(66).gpus = {"GPU-0"};
  ASSERT_TRUE(yard.end_job("slurm-17"));
  yard.loop.advance(seconds(1));
  const Lease& left = *yard.leases->find(held->id);
  EXPECT_EQ(left.state, LeaseState::draining);
  EXPECT_TRUE(yard.leases->has_leftover(held->id));
  EXPECT_EQ(left.detail, "PID 66 (python) still uses GPU-0");
  ASSERT_TRUE(yard.begin_job("slurm-18", {"GPU-0"}));
  EXPECT_EQ(yard.state(held->id), LeaseState::ended);
}

TEST(Jobs, UnreadableProcessListReportsNoLeftover) {
  SlurmYard yard(1);
  const auto held = yard.begin_job("slurm-17", {"GPU-0"});
  yard.ground.unreadable = {"GPU-0"};
  ASSERT_TRUE(yard.end_job("slurm-17"));
  yard.loop.advance(seconds(1));
  EXPECT_EQ(yard.state(held->id), LeaseState::draining);
  EXPECT_FALSE(yard.leases->has_leftover(held->id));
}

TEST(Jobs, FromTheFirstOneOnLeasesOnlyObserve) {
  SlurmYard yard(1);
  ASSERT_TRUE(yard.begin_job("slurm-17", {"GPU-0"}));
  const auto refused = yard.claim(10, "a");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::conflict);
  EXPECT_THAT(refused.error().hint, StartsWith("srun --gres=gpu"));
  EXPECT_THAT(yard.leases->offer(1000, {})->reason, HasSubstr("Slurm"));
  ASSERT_TRUE(yard.end_job("slurm-17"));
  yard.ground.start(66, 2000);
  yard.ground.running.at(66).gpus = {"GPU-0"};
  yard.leases->on_processes();
  yard.loop.advance(seconds(1));
  EXPECT_EQ(yard.leases->gpus().withheld_reason("GPU-0")->first, "observed");
  EXPECT_TRUE(yard.leases->gpus().unleased_processes().empty()) << "nobody is called a squatter";
  const auto adopted = yard.heard([&](const LeaseManager::OnLease& answer) {
    yard.leases->adopt(yard.ground.caller(kRoot), 66, "", answer);
  });
  EXPECT_EQ(adopted.error().code, Errc::conflict);
}

TEST(Jobs, ObserveOnlyCancelsWaitingClaimsWithReason) {
  SlurmYard yard(1);
  yard.ground.start(11);
  ASSERT_TRUE(yard.claim(10, "a"));
  ASSERT_TRUE(yard.claim(11, "b"));
  yard.leases->observe_only();
  yard.loop.run_posted();
  EXPECT_EQ(yard.state("a"), LeaseState::held) << "who has a GPU keeps it";
  EXPECT_EQ(yard.leases->find("b")->end_reason, EndReason::cancelled);
  EXPECT_THAT(yard.leases->find("b")->detail, StartsWith("Slurm allocates"));
  EXPECT_EQ(yard.begin_job("slurm-17", {"GPU-0"}).error().code, Errc::conflict);
}

TEST(Jobs, ConfiguredModeOverridesSlurmDetection) {
  SlurmYard grants(2, GrantMode::grant);
  ASSERT_TRUE(grants.begin_job("slurm-17", {"GPU-0"}));
  EXPECT_EQ(grants.claim(10, "a")->gpus, std::vector<DeviceId>{"GPU-1"});
  grants.ground.start(11);
  EXPECT_EQ(grants.claim(11, "b")->state, LeaseState::waiting);
  grants.kill();
  grants.policy.mode = GrantMode::observe;
  grants.begin();
  EXPECT_EQ(grants.leases->find("b")->end_reason, EndReason::cancelled) << "nobody waits for ever";
  EXPECT_FALSE(grants.claim(11, "c"));
}

// Forgets Slurm. Returns the error if that is refused.
std::optional<Error> forget(SlurmYard& yard) {
  std::optional<Result<void>> done;
  yard.leases->stop_observing([&](const Result<void>& heard) { done = heard; });
  yard.loop.run_posted();
  EXPECT_TRUE(done) << "no answer";
  return !done || done->ok() ? std::nullopt : std::optional(done->error());
}

TEST(Jobs, GpusAreLeasedAgainOnceSlurmIsForgotten) {
  SlurmYard yard(2);
  ASSERT_TRUE(yard.begin_job("slurm-17", {"GPU-0"}));
  const auto refused = forget(yard);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, Errc::conflict);
  EXPECT_THAT(refused->message, HasSubstr("lease slurm-17-"));
  EXPECT_THAT(refused->hint, HasSubstr("--force --reason \""));
  ASSERT_TRUE(yard.end_job("slurm-17"));
  yard.loop.advance(seconds(1));
  yard.ground.start(66, 2000);
  yard.ground.running.at(66).gpus = {"GPU-1"};
  EXPECT_FALSE(forget(yard));
  EXPECT_FALSE(yard.leases->gpus().is_observe_only());
  EXPECT_EQ(yard.claim(10, "a")->gpus, std::vector<DeviceId>{"GPU-0"});
  EXPECT_EQ(yard.leases->gpus().withheld_reason("GPU-1")->first, "squatted");
  EXPECT_FALSE(forget(yard)) << "a second time";
  yard.kill();
  yard.begin();
  yard.loop.advance(seconds(1));
  EXPECT_FALSE(yard.leases->gpus().is_observe_only()) << "no job is left in the journal";
  yard.leases->observe_only();
  EXPECT_TRUE(yard.leases->gpus().is_observe_only()) << "after the next hook";
}

TEST(Jobs, ConfiguredObserveModeCannotBeForgotten) {
  SlurmYard yard(1, GrantMode::observe);
  const auto refused = forget(yard);
  ASSERT_TRUE(refused);
  EXPECT_THAT(refused->message, HasSubstr("lease.mode"));
}

TEST(Jobs, LeaseSurvivesRestartButNotReboot) {
  SlurmYard yard(2);
  const auto held = yard.begin_job("slurm-17", {"GPU-0"});
  yard.loop.advance(minutes(1));
  yard.kill();
  yard.begin();
  yard.loop.advance(hours(1));
  EXPECT_EQ(yard.state(held->id), LeaseState::held);
  EXPECT_FALSE(yard.claim(10, "a")) << "Slurm allocates them, although no hook has run yet";
  EXPECT_EQ(yard.begin_job("slurm-17", {"GPU-0"})->id, held->id);
  yard.kill();
  yard.begin("boot-2");
  EXPECT_EQ(yard.leases->find(held->id)->end_reason, EndReason::node_reboot);
}

// A client may ask for a job's lease by this id, but not choose it for its own claim.
TEST(Jobs, LeaseIdIsReservedAndMalformedNumberRejected) {
  EXPECT_FALSE(check_id("slurm-17-019ab12cd34"));
  EXPECT_TRUE(check_name("slurm-17-019ab12cd34")) << "but may ask for it";
  for (const char* number : {"", "x", "17-1", "-1", "123456789012345678901"}) {
    EXPECT_FALSE(make_job_name(number)) << number;
  }
}

}  // namespace
}  // namespace gpuyard::lease
