// Leases of an external allocator's jobs, here Slurm's: granted at once, ended when it says so.
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
using testing::IsEmpty;
using testing::StartsWith;

constexpr std::uint32_t kRoot = 1;  // the number of a process of root

class JobFixture : public LeaseFixture {
 public:
  explicit JobFixture(unsigned gpus = 4, GrantMode mode = GrantMode::automatic)
      : LeaseFixture(gpus, {.fairness = {}, .mode = mode}) {
    observer.start(kRoot, 0);
    observer.start(10);
  }
  Result<Lease> begin_job(const std::string& name, std::vector<DeviceId> gpus,
                          std::uint32_t uid = 1000) {
    return result_of([&](const LeaseManager::OnLease& answer) {
      leases->begin_job({name, uid, std::move(gpus), "train"}, answer);
    });
  }
  Result<Lease> end_job(const std::string& name) {
    return result_of([&](const LeaseManager::OnLease& answer) {
      leases->end_job(observer.caller(kRoot), name, answer);
    });
  }
};

TEST(Jobs, LeaseLastsUntilAllocatorReportsEnd) {
  JobFixture fixture;
  const auto held = fixture.begin_job("slurm-17", {"GPU-2", "GPU-1"});
  ASSERT_TRUE(held);
  EXPECT_EQ(held->state, LeaseState::held);
  EXPECT_EQ(held->uid, 1000U);
  EXPECT_THAT(held->gpus, ElementsAre("GPU-1", "GPU-2"));
  EXPECT_EQ(job_of(*held), "slurm-17");
  fixture.loop.advance(hours(1));  // no process of it is looked up
  EXPECT_EQ(fixture.state(held->id), LeaseState::held);
  EXPECT_EQ(fixture.leases->find_job("slurm-17")->id, held->id);
  EXPECT_EQ(fixture.leases->find_job("slurm-1"), nullptr);
  const auto over = fixture.end_job("slurm-17");
  ASSERT_TRUE(over);
  EXPECT_EQ(over->end_reason, EndReason::released);
  fixture.loop.advance(seconds(1));
  EXPECT_EQ(fixture.state(held->id), LeaseState::ended);
  EXPECT_EQ(fixture.end_job("slurm-17").error().code, Errc::not_found)
      << "an end without a beginning";
}

// The owner of a job ends it through its allocator, not by releasing its lease.
TEST(Jobs, ReleaseIsReservedToAdministrators) {
  JobFixture fixture(1);
  const auto held = fixture.begin_job("slurm-17", {"GPU-0"});
  ASSERT_TRUE(held);
  EXPECT_EQ(fixture.release(10, held->id).error().code, Errc::denied);
  EXPECT_EQ(fixture.state(held->id), LeaseState::held);
  EXPECT_TRUE(fixture.release(kRoot, held->id)) << "an administrator may";
}

TEST(Jobs, RepeatedBeginReturnsSameLease) {
  JobFixture fixture;
  const auto first = fixture.begin_job("slurm-17", {"GPU-0"});
  const auto again = fixture.begin_job("slurm-17", {"GPU-0"});
  ASSERT_TRUE(first && again);
  EXPECT_EQ(first->id, again->id);
}

TEST(Jobs, ReusedJobNumberIsNewJob) {
  JobFixture fixture;
  const auto first = fixture.begin_job("slurm-17", {"GPU-0"});
  const auto of_other_gpus = fixture.begin_job("slurm-17", {"GPU-1"});
  const auto of_another_user = fixture.begin_job("slurm-17", {"GPU-1"}, 1001);
  ASSERT_TRUE(first && of_other_gpus && of_another_user);
  EXPECT_EQ(fixture.leases->find(first->id)->end_reason, EndReason::taken_over);
  EXPECT_EQ(fixture.leases->find(of_other_gpus->id)->end_reason, EndReason::taken_over);
  EXPECT_EQ(fixture.state(of_another_user->id), LeaseState::held);
  EXPECT_EQ(fixture.leases->find_job("slurm-17")->id, of_another_user->id);
}

TEST(Jobs, MissedEndIsInferredFromNextAllocation) {
  JobFixture fixture;
  const auto forgotten = fixture.begin_job("slurm-17", {"GPU-0", "GPU-1"});
  const auto next = fixture.begin_job("slurm-18", {"GPU-1"});
  ASSERT_TRUE(forgotten && next);
  EXPECT_EQ(fixture.state(next->id), LeaseState::held);
  EXPECT_EQ(fixture.state(forgotten->id), LeaseState::ended);
  EXPECT_THAT(fixture.leases->find(forgotten->id)->detail, HasSubstr("slurm-18"));
}

TEST(Jobs, LeftoverIsNamedWithoutBlockingNextJob) {
  JobFixture fixture(1);
  const auto held = fixture.begin_job("slurm-17", {"GPU-0"});
  fixture.observer.start(66);
  fixture.observer.running.at(66).gpus = {"GPU-0"};
  ASSERT_TRUE(fixture.end_job("slurm-17"));
  fixture.loop.advance(seconds(1));
  const Lease& left = *fixture.leases->find(held->id);
  EXPECT_EQ(left.state, LeaseState::draining);
  EXPECT_TRUE(fixture.leases->has_leftover(held->id));
  EXPECT_EQ(left.detail, "PID 66 (python) still uses GPU-0");
  ASSERT_TRUE(fixture.begin_job("slurm-18", {"GPU-0"}));
  EXPECT_EQ(fixture.state(held->id), LeaseState::ended);
}

TEST(Jobs, UnreadableProcessListReportsNoLeftover) {
  JobFixture fixture(1);
  const auto held = fixture.begin_job("slurm-17", {"GPU-0"});
  fixture.observer.unreadable = {"GPU-0"};
  ASSERT_TRUE(fixture.end_job("slurm-17"));
  fixture.loop.advance(seconds(1));
  EXPECT_EQ(fixture.state(held->id), LeaseState::draining);
  EXPECT_FALSE(fixture.leases->has_leftover(held->id));
}

TEST(Jobs, FirstJobSwitchesToObserveOnly) {
  JobFixture fixture(1);
  ASSERT_TRUE(fixture.begin_job("slurm-17", {"GPU-0"}));
  const auto refused = fixture.claim(10, "a");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::conflict);
  EXPECT_EQ(refused.error().hint, "gpuyard run -n 1 --through slurm -- COMMAND");
  EXPECT_THAT(fixture.leases->offer(1000, {})->reason, HasSubstr("Slurm"));
  ASSERT_TRUE(fixture.end_job("slurm-17"));
  fixture.observer.start(66, 2000);
  fixture.observer.running.at(66).gpus = {"GPU-0"};
  fixture.leases->on_processes();
  fixture.loop.advance(seconds(1));
  EXPECT_EQ(fixture.leases->gpus().withheld_reason("GPU-0")->first, "observed");
  EXPECT_TRUE(fixture.leases->gpus().unleased().all().empty()) << "its job may still be reported";
  const auto adopted = fixture.result_of([&](const LeaseManager::OnLease& answer) {
    fixture.leases->adopt(fixture.observer.caller(kRoot), 66, "", answer);
  });
  EXPECT_EQ(adopted.error().code, Errc::conflict);
}

// The GPUs of a machine whose allocator has reported, with a process of no job on GPU-1.
class UnleasedInObserveMode : public testing::Test {
 protected:
  UnleasedInObserveMode() {
    fixture.observer.start(66, 2000);
    fixture.observer.running.at(66).gpus = {"GPU-1"};
  }
  // The unleased processes of all GPUs after this time with observations, one a second.
  std::vector<std::uint32_t> unleased_after(seconds time) {
    for (seconds passed{0}; passed < time; ++passed) {
      fixture.leases->on_processes();
      fixture.loop.advance(seconds(1));
    }
    std::vector<std::uint32_t> pids;
    for (const auto& [gpu, processes] : fixture.leases->gpus().unleased().all()) {
      for (const ObservedProcess& one : processes) pids.push_back(one.pid);
    }
    return pids;
  }

  JobFixture fixture{2, GrantMode::observe};
};

TEST_F(UnleasedInObserveMode, ProcessCountsOnlyAfterTheReportDelay) {
  std::vector<std::uint32_t> reported;
  fixture.leases->set_on_unleased_process(
      [&](const DeviceId&, const ObservedProcess& one) { reported.push_back(one.pid); });
  ASSERT_TRUE(fixture.begin_job("slurm-17", {"GPU-0"}));
  EXPECT_THAT(unleased_after(seconds(25)), IsEmpty());
  EXPECT_THAT(reported, IsEmpty());
  EXPECT_THAT(unleased_after(seconds(10)), ElementsAre(66U));
  EXPECT_THAT(reported, ElementsAre(66U)) << "one event";
  EXPECT_EQ(fixture.leases->gpus().withheld_reason("GPU-1")->first, "observed");
  fixture.observer.stop(66);
  EXPECT_THAT(unleased_after(seconds(2)), IsEmpty());
}

TEST_F(UnleasedInObserveMode, NothingCountsBeforeTheAllocatorReports) {
  EXPECT_THAT(unleased_after(seconds(120)), IsEmpty());
  EXPECT_FALSE(fixture.leases->gpus().knows_unleased());
  fixture.leases->accept_report(Allocator::slurm);
  EXPECT_TRUE(fixture.leases->gpus().knows_unleased());
  EXPECT_THAT(unleased_after(seconds(25)), IsEmpty()) << "the time before does not count";
  EXPECT_THAT(unleased_after(seconds(10)), ElementsAre(66U));
}

TEST_F(UnleasedInObserveMode, LateReportOfItsJobCoversTheProcess) {
  fixture.leases->accept_report(Allocator::slurm);
  EXPECT_THAT(unleased_after(seconds(25)), IsEmpty());
  ASSERT_TRUE(fixture.begin_job("slurm-17", {"GPU-1"}, 2000));
  EXPECT_THAT(unleased_after(seconds(60)), IsEmpty());
}

TEST_F(UnleasedInObserveMode, ProcessOfAnotherUserOnAJobsGpuCounts) {
  ASSERT_TRUE(fixture.begin_job("slurm-17", {"GPU-1"}, 1000));
  EXPECT_THAT(unleased_after(seconds(35)), ElementsAre(66U));
}

// Docker's daemon, or that of MPS, may have started it for the job.
TEST_F(UnleasedInObserveMode, ContainerOrRootsProcessCountsOnlyWhereNoJobIs) {
  for (auto* const started_by_root : {+[](FakeObserver::Running& one) { one.in_container = true; },
                                      +[](FakeObserver::Running& one) { one.identity.uid = 0; }}) {
    JobFixture node{2, GrantMode::observe};
    node.observer.start(66, 2000);
    node.observer.running.at(66).gpus = {"GPU-1"};
    started_by_root(node.observer.running.at(66));
    ASSERT_TRUE(node.begin_job("slurm-17", {"GPU-1"}, 1000));
    const auto unleased = [&] {
      for (int second = 0; second < 35; ++second) {
        node.leases->on_processes();
        node.loop.advance(seconds(1));
      }
      const auto& all = node.leases->gpus().unleased().all();
      const auto found = all.find("GPU-1");
      return found != all.end() ? found->second.size() : 0;
    };
    EXPECT_EQ(unleased(), 0U);
    ASSERT_TRUE(node.begin_job("slurm-18", {"GPU-0"}, 1000));
    ASSERT_TRUE(node.end_job("slurm-17"));
    EXPECT_EQ(unleased(), 1U);
  }
}

TEST_F(UnleasedInObserveMode, ProcessOfAJobOrPodWithoutALeaseDoesNotCount) {
  fixture.observer.running.at(66).in_job = true;
  fixture.leases->accept_report(Allocator::kubernetes);
  EXPECT_THAT(unleased_after(seconds(60)), IsEmpty());
}

TEST_F(UnleasedInObserveMode, InvisibleProcessDoesNotCount) {
  fixture.observer.running.at(66).visible = false;
  fixture.leases->accept_report(Allocator::slurm);
  EXPECT_THAT(unleased_after(seconds(60)), IsEmpty());
}

TEST_F(UnleasedInObserveMode, ProcessOnASplitGpuDoesNotCount) {
  fixture.fleet[1].is_split = true;
  fixture.leases->on_gpus(fixture.fleet);
  fixture.leases->accept_report(Allocator::slurm);
  EXPECT_THAT(unleased_after(seconds(60)), IsEmpty());
}

TEST(Jobs, ObserveOnlyCancelsWaitingClaimsWithReason) {
  JobFixture fixture(1);
  fixture.observer.start(11);
  ASSERT_TRUE(fixture.claim(10, "a"));
  ASSERT_TRUE(fixture.claim(11, "b"));
  fixture.leases->accept_report(Allocator::slurm);
  fixture.loop.run_posted();
  EXPECT_EQ(fixture.state("a"), LeaseState::held) << "who has a GPU keeps it";
  EXPECT_EQ(fixture.leases->find("b")->end_reason, EndReason::cancelled);
  EXPECT_THAT(fixture.leases->find("b")->detail, StartsWith("Slurm allocates"));
  EXPECT_EQ(fixture.begin_job("slurm-17", {"GPU-0"}).error().code, Errc::conflict);
}

TEST(Jobs, MessagesNameTheAllocatorThatReportedLast) {
  JobFixture fixture(1);
  fixture.leases->accept_report(Allocator::slurm);
  fixture.leases->accept_report(Allocator::kubernetes);
  const auto refused = fixture.claim(10, "a");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::conflict);
  EXPECT_THAT(refused.error().message, StartsWith("Kubernetes allocates the GPUs"));
  EXPECT_THAT(refused.error().cause, HasSubstr("a pod that requests 1 of them"));
  EXPECT_EQ(refused.error().hint, "");
  EXPECT_EQ(fixture.leases->gpus().withheld_reason("GPU-0")->second,
            "allocated by Kubernetes; gpuyard only observes it");
  fixture.leases->accept_report(Allocator::slurm);
  EXPECT_THAT(fixture.claim(10, "a").error().message, StartsWith("Slurm allocates the GPUs"));
}

TEST(Jobs, ConfiguredModeOverridesFirstReport) {
  JobFixture grants(2, GrantMode::grant);
  ASSERT_TRUE(grants.begin_job("slurm-17", {"GPU-0"}));
  EXPECT_EQ(grants.claim(10, "a")->gpus, std::vector<DeviceId>{"GPU-1"});
  grants.observer.start(11);
  EXPECT_EQ(grants.claim(11, "b")->state, LeaseState::waiting);
  grants.kill();
  grants.policy.mode = GrantMode::observe;
  grants.begin();
  EXPECT_EQ(grants.leases->find("b")->end_reason, EndReason::cancelled) << "nobody waits for ever";
  EXPECT_FALSE(grants.claim(11, "c"));
}

// Forgets the allocator. Returns the error if that is refused.
std::optional<Error> forget(JobFixture& fixture) {
  std::optional<Result<void>> done;
  fixture.leases->stop_observing([&](const Result<void>& result) { done = result; });
  fixture.loop.run_posted();
  EXPECT_TRUE(done) << "no answer";
  return !done || done->ok() ? std::nullopt : std::optional(done->error());
}

TEST(Jobs, GpusAreLeasedAgainOnceAllocatorIsForgotten) {
  JobFixture fixture(2);
  ASSERT_TRUE(fixture.begin_job("slurm-17", {"GPU-0"}));
  const auto refused = forget(fixture);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, Errc::conflict);
  EXPECT_THAT(refused->message, HasSubstr("lease slurm-17-"));
  EXPECT_THAT(refused->hint, HasSubstr("--force --reason \""));
  ASSERT_TRUE(fixture.end_job("slurm-17"));
  fixture.loop.advance(seconds(1));
  fixture.observer.start(66, 2000);
  fixture.observer.running.at(66).gpus = {"GPU-1"};
  EXPECT_FALSE(forget(fixture));
  EXPECT_FALSE(fixture.leases->gpus().allocator());
  EXPECT_EQ(fixture.claim(10, "a")->gpus, std::vector<DeviceId>{"GPU-0"});
  EXPECT_EQ(fixture.leases->gpus().withheld_reason("GPU-1")->first, "squatted");
  EXPECT_FALSE(forget(fixture)) << "a second time";
  fixture.kill();
  fixture.begin();
  fixture.loop.advance(seconds(1));
  EXPECT_FALSE(fixture.leases->gpus().allocator()) << "no job is left in the journal";
  fixture.leases->accept_report(Allocator::slurm);
  EXPECT_TRUE(fixture.leases->gpus().allocator()) << "after the next hook";
}

TEST(Jobs, ConfiguredObserveModeCannotBeForgotten) {
  JobFixture fixture(1, GrantMode::observe);
  const auto refused = forget(fixture);
  ASSERT_TRUE(refused);
  EXPECT_THAT(refused->message, HasSubstr("lease.mode"));
}

TEST(Jobs, LeaseSurvivesRestartButNotReboot) {
  JobFixture fixture(2);
  const auto held = fixture.begin_job("slurm-17", {"GPU-0"});
  fixture.loop.advance(minutes(1));
  fixture.kill();
  fixture.begin();
  fixture.loop.advance(hours(1));
  EXPECT_EQ(fixture.state(held->id), LeaseState::held);
  EXPECT_FALSE(fixture.claim(10, "a")) << "Slurm allocates them, although no hook has run yet";
  EXPECT_EQ(fixture.begin_job("slurm-17", {"GPU-0"})->id, held->id);
  fixture.kill();
  fixture.begin("boot-2");
  EXPECT_EQ(fixture.leases->find(held->id)->end_reason, EndReason::node_reboot);
}

class PodFixture : public JobFixture {
 public:
  using JobFixture::JobFixture;
  Result<Lease> begin_pod(const std::string& pod, std::vector<DeviceId> gpus) {
    return result_of([&](const LeaseManager::OnLease& answer) {
      leases->begin_job({pod, kPodsUid, std::move(gpus), "trainer, sidecar", Allocator::kubernetes},
                        answer);
    });
  }
};

TEST(Pods, LeaseLastsUntilPodIsGone) {
  PodFixture fixture;
  const auto held = fixture.begin_pod("default/trainer.v1-0", {"GPU-2", "GPU-1"});
  ASSERT_TRUE(held);
  EXPECT_THAT(held->id, StartsWith("pod-trainer-v1-0-"));
  EXPECT_EQ(held->pod, "default/trainer.v1-0");
  EXPECT_EQ(held->uid, kPodsUid);
  EXPECT_EQ(held->spec.note, "trainer, sidecar");
  EXPECT_EQ(job_of(*held), "default/trainer.v1-0");
  EXPECT_EQ(allocator_of(*held), Allocator::kubernetes);
  EXPECT_EQ(fixture.begin_pod("default/trainer.v1-0", {"GPU-1", "GPU-2"})->id, held->id)
      << "a repeated report";
  EXPECT_EQ(fixture.end_job("default/trainer.v1-0")->end_reason, EndReason::released);
  fixture.loop.advance(seconds(1));
  EXPECT_EQ(fixture.state(held->id), LeaseState::ended);
  EXPECT_EQ(fixture.end_job("default/trainer.v1-0").error().code, Errc::not_found);
  EXPECT_EQ(fixture.leases->find_job("default/trainer.v1-0")->id, held->id);
}

// The parts of their names in the ids of their leases are the same.
TEST(Pods, PodsOfSimilarNamesAreDistinct) {
  const std::string long_name = std::string(60, 'a');
  const std::vector<std::string> names{"one/trainer",      "two/trainer",
                                       "one/trainer.0",    "one/trainer-0",
                                       "one/" + long_name, "one/" + long_name + "b"};
  PodFixture fixture(static_cast<unsigned>(names.size()));
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto held = fixture.begin_pod(names[i], {"GPU-" + std::to_string(i)});
    ASSERT_TRUE(held);
    EXPECT_TRUE(check_name(held->id)) << held->id;
    ids.push_back(held->id);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(fixture.state(ids[i]), LeaseState::held);
    EXPECT_EQ(fixture.leases->find_job(names[i])->id, ids[i]);
  }
}

TEST(Pods, AnotherSetOfGpusIsAnotherLease) {
  PodFixture fixture;
  const auto first = fixture.begin_pod("default/trainer", {"GPU-0"});
  const auto second = fixture.begin_pod("default/trainer", {"GPU-0", "GPU-1"});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(fixture.leases->find(first->id)->end_reason, EndReason::taken_over);
  EXPECT_EQ(fixture.state(second->id), LeaseState::held);
  EXPECT_EQ(fixture.leases->find_job("default/trainer")->id, second->id);
}

TEST(Pods, LeaseDrainsWhileAnyProcessIsOnItsGpus) {
  PodFixture fixture(2);
  const auto held = fixture.begin_pod("default/trainer", {"GPU-0"});
  ASSERT_TRUE(held);
  fixture.observer.start(66, 4242);  // as the image says, not a user of this machine
  fixture.observer.running.at(66).gpus = {"GPU-0"};
  ASSERT_TRUE(fixture.end_job("default/trainer"));
  fixture.loop.advance(minutes(1));
  EXPECT_EQ(fixture.state(held->id), LeaseState::draining);
  EXPECT_EQ(fixture.leases->find(held->id)->detail, "PID 66 (python) still uses GPU-0");
  ASSERT_TRUE(fixture.end_job("default/trainer")) << "once more";
  fixture.observer.stop(66);
  fixture.loop.advance(seconds(2));
  EXPECT_EQ(fixture.state(held->id), LeaseState::ended);
  EXPECT_EQ(fixture.leases->find(held->id)->end_reason, EndReason::released);
}

TEST(Pods, FirstPodSwitchesToObserveOnlyAlsoAfterRestart) {
  PodFixture fixture(2);
  ASSERT_TRUE(fixture.begin_pod("default/trainer", {"GPU-0"}));
  EXPECT_THAT(fixture.claim(10, "a").error().message, StartsWith("Kubernetes allocates"));
  fixture.kill();
  fixture.begin();
  EXPECT_THAT(fixture.claim(10, "a").error().message, StartsWith("Kubernetes allocates"));
  EXPECT_THAT(fixture.leases->find_job("default/trainer")->pod, "default/trainer");
}

TEST(Pods, OnlyAdministratorsEndTheLease) {
  PodFixture fixture(1);
  const auto held = fixture.begin_pod("default/trainer", {"GPU-0"});
  ASSERT_TRUE(held);
  const auto refused = fixture.release(10, held->id);
  EXPECT_EQ(refused.error().code, Errc::denied);
  EXPECT_THAT(refused.error().message, HasSubstr("belongs to pod default/trainer"));
  fixture.observer.start(11, kPodsUid);
  EXPECT_EQ(fixture.release(11, held->id).error().code, Errc::denied) << "a caller without a user";
  EXPECT_TRUE(fixture.release(kRoot, held->id));
}

TEST(Pods, NamesAreThoseOfKubernetes) {
  EXPECT_EQ(*make_pod_job_name("kube-system", "trainer.v1-0"), "kube-system/trainer.v1-0");
  EXPECT_TRUE(make_pod_job_name(std::string(63, 'a'), std::string(253, 'b')));
  for (const auto& [pod_namespace, pod] :
       std::vector<std::pair<std::string, std::string>>{{"", "a"},
                                                        {"a", ""},
                                                        {"a.b", "a"},
                                                        {"A", "a"},
                                                        {"a", "a/b"},
                                                        {"a", "-a"},
                                                        {"a", "a."},
                                                        {"a", "../a"},
                                                        {std::string(64, 'a'), "a"},
                                                        {"a", std::string(254, 'a')}}) {
    EXPECT_EQ(make_pod_job_name(pod_namespace, pod).error().code, Errc::invalid) << pod;
  }
}

// A client may ask for a job's lease by this id, but not choose it for its own claim.
TEST(Jobs, LeaseIdIsReservedAndMalformedNumberRejected) {
  EXPECT_FALSE(check_id("slurm-17-019ab12cd34"));
  EXPECT_TRUE(check_name("slurm-17-019ab12cd34")) << "but may ask for it";
  for (const char* number : {"", "x", "17-1", "-1", "123456789012345678901"}) {
    EXPECT_FALSE(make_slurm_job_name(number)) << number;
  }
}

}  // namespace
}  // namespace gpuyard::lease
