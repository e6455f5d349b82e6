#include "daemon/lease_observer.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/manual_worker_for_tests.h"
#include "core/processes/proc_tree_for_tests.h"
#include "gpu/telemetry/telemetry_for_tests.h"

namespace gpuyard::daemon {
namespace {

using lease::ObservedProcess;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The clock of these tests stands at one hour after the boot.
constexpr std::uint64_t kStartTicks = 6000;
class LeaseObserverTest : public telemetry::TelemetryTest {
 protected:
  LeaseObserverTest() {
    proc_.put({.pid = 1, .parent = 0});
    proc_.put({.pid = 10, .start_ticks = kStartTicks});
    proc_.put({.pid = 11, .start_ticks = kStartTicks, .parent = 10});
    Inventory fleet;
    fleet.driver.simulated = true;
    fleet.devices.push_back({"G0", 0, "G0", "", "H100", {}});
    telemetry_.on_inventory(fleet);
    answer_with_new_list();
    loop_.run_posted();
  }

  // Answers all requests to the driver with a list that is taken now.
  void answer_with_new_list() {
    processes_.set(ProcessList{loop_.now(), std::vector<GpuProcess>{{11, {}, 1000, {}}}});
    answer();
  }
  void observe(bool fresh) {
    observer_.observe({{.lease = "a",
                        .uid = 5,
                        .gpus = {"G0"},
                        .processes = {{10, TimePoint{std::chrono::minutes(1)}}}}},
                      {"G0"}, fresh,
                      [this](lease::Observation sight) { sights_.push_back(std::move(sight)); });
  }
  static std::vector<std::uint32_t> alive_in(const lease::Observation& sight) {
    std::vector<std::uint32_t> pids;
    for (const lease::ProcessKey& process : sight.alive_by_lease.at("a"))
      pids.push_back(process.pid);
    return pids;
  }

  ManualWorker worker_;
  processes::ProcTree proc_;
  // kSubordinate belongs to the user who runs this test.
  static constexpr std::uint32_t kSubordinate = 165'000;
  LeaseObserver observer_{
      loop_, worker_, telemetry_, {proc_.root(), proc_.root(), false, [](std::uint32_t uid) {
                                     return uid == kSubordinate ? ::getuid() : uid;
                                   }}};
  std::vector<lease::Observation> sights_;
};

TEST_F(LeaseObserverTest, UsesNewestListsWithoutDriverQuery) {
  observe(false);
  EXPECT_TRUE(pending_requests_.empty()) << "the driver is not asked";
  EXPECT_THAT(sights_, IsEmpty()) << "never inside the call";
  worker_.run_all();
  ASSERT_EQ(sights_.size(), 1U);
  EXPECT_EQ(sights_[0].processes_by_gpu.at("G0")->front().attribution,
            ObservedProcess::Attribution::member);
  EXPECT_THAT(alive_in(sights_[0]), ElementsAre(10, 11));
  loop_.advance(LeaseObserver::kReplyTimeout);
  EXPECT_EQ(sights_.size(), 1U) << "once";
}

TEST_F(LeaseObserverTest, FreshObservationUsesListsTakenAfterRequest) {
  loop_.advance(std::chrono::milliseconds(500));
  answer_with_new_list();
  const TimePoint asked = loop_.now();
  observe(true);
  loop_.run_posted();
  ASSERT_EQ(pending_requests_.size(), 1U);
  EXPECT_EQ(pending_requests_[0].probes, (ProbeSet{Probe::processes, Probe::memory}));
  answer_with_new_list();
  worker_.run_all();
  ASSERT_EQ(sights_.size(), 1U);
  EXPECT_GE(sights_[0].taken_at, asked);
  EXPECT_EQ(sights_[0].processes_by_gpu.at("G0")->size(), 1U);
}

TEST_F(LeaseObserverTest, StuckWorkerReportsProcessesAsAlive) {
  proc_.remove(10);
  observe(false);
  loop_.advance(LeaseObserver::kReplyTimeout);
  ASSERT_EQ(sights_.size(), 1U);
  EXPECT_EQ(sights_[0].processes_by_gpu.at("G0"), std::nullopt);
  EXPECT_THAT(alive_in(sights_[0]), ElementsAre(10));

  observe(false);
  EXPECT_EQ(worker_.waiting(), 1U) << "it is asked for nothing more";
  EXPECT_EQ(sights_.size(), 1U) << "never inside the call";
  loop_.run_posted();
  EXPECT_EQ(sights_.size(), 2U);

  worker_.run_all();
  EXPECT_EQ(sights_.size(), 2U) << "too late";
  observe(false);
  worker_.run_all();
  ASSERT_EQ(sights_.size(), 3U);
  EXPECT_THAT(alive_in(sights_[2]), IsEmpty()) << "it answers again";
}

TEST_F(LeaseObserverTest, TheWorkerIsNotAskedForTooMuch) {
  for (std::size_t i = 0; i < LeaseObserver::kMaxPendingRequests + 3; ++i) observe(false);
  EXPECT_EQ(worker_.waiting(), LeaseObserver::kMaxPendingRequests);
  loop_.run_posted();
  EXPECT_EQ(sights_.size(), 3U);
  worker_.run_all();
  EXPECT_EQ(sights_.size(), LeaseObserver::kMaxPendingRequests + 3);
}

TEST_F(LeaseObserverTest, FullWorkerQueueReportsUnavailable) {
  worker_.full = true;
  observe(false);
  Errc code = {};
  observer_.identify(1,
                     [&](const Result<lease::ProcessIdentity>& who) { code = who.error().code; });
  EXPECT_EQ(sights_.size(), 0U);
  EXPECT_EQ(code, Errc{});
  loop_.run_posted();
  EXPECT_EQ(sights_.size(), 1U);
  EXPECT_EQ(code, Errc::unavailable);
}

TEST_F(LeaseObserverTest, TheProcessesOfARecordingAreNobodys) {
  LeaseObserver observer(loop_, worker_, telemetry_, {proc_.root(), proc_.root(), true});
  observer.observe({}, {"G0"}, false,
                   [this](lease::Observation sight) { sights_.push_back(std::move(sight)); });
  worker_.run_all();
  EXPECT_EQ(sights_.at(0).processes_by_gpu.at("G0")->front().attribution,
            ObservedProcess::Attribution::unknown);
}

TEST_F(LeaseObserverTest, IdentifiesAProcess) {
  std::optional<Result<lease::ProcessIdentity>> who;
  const auto pid = static_cast<std::uint32_t>(::getpid());
  observer_.identify(pid, [&](Result<lease::ProcessIdentity> found) { who = std::move(found); });
  EXPECT_FALSE(who);
  worker_.run_all();
  ASSERT_TRUE(who && *who);
  EXPECT_EQ((*who)->key.pid, pid);
  EXPECT_EQ((*who)->command, "daemon_test");
  EXPECT_TRUE(*(*who)->fd);
  loop_.advance(LeaseObserver::kReplyTimeout);
  EXPECT_TRUE(*who) << "the deadline comes to nothing";
}

// A process that cannot be identified in time does not count as gone.
TEST_F(LeaseObserverTest, IdentifyTimeoutIsUnavailable) {
  Errc code = {};
  observer_.identify(1,
                     [&](const Result<lease::ProcessIdentity>& who) { code = who.error().code; });
  loop_.advance(LeaseObserver::kReplyTimeout);
  EXPECT_EQ(code, Errc::unavailable);
}

class Signals : public LeaseObserverTest {
 protected:
  Signals() : child_(::fork()) {
    while (child_ == 0) ::pause();
    observer_.identify(static_cast<std::uint32_t>(child_),
                       [this](Result<lease::ProcessIdentity> found) { process_ = found->key; });
    worker_.run_all();
  }
  ~Signals() override {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  bool ends() {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOWAIT) == 0 &&
           info.si_status == SIGTERM;
  }
  void send(std::optional<std::uint32_t> only_of) {
    observer_.signal({process_}, SIGTERM, only_of, [this](std::vector<lease::SignalFailure> left) {
      left_ = std::move(left);
      ++answers_;
    });
  }

  pid_t child_;
  lease::ProcessKey process_;
  std::optional<std::vector<lease::SignalFailure>> left_;
  int answers_ = 0;
};

TEST_F(Signals, GoOutFromTheWorker) {
  send({});
  EXPECT_EQ(worker_.waiting(), 1U);
  EXPECT_FALSE(left_);
  worker_.run_all();
  EXPECT_TRUE(ends());
  EXPECT_THAT(*left_, IsEmpty());
  loop_.advance(LeaseObserver::kReplyTimeout);
  EXPECT_EQ(answers_, 1);
}

TEST_F(Signals, ReachProcessesOfSubordinateUids) {
  send(::getuid() + 1);
  worker_.run_all();
  EXPECT_EQ(::waitpid(child_, nullptr, WNOHANG), 0) << "the signal of another user";
  ASSERT_EQ(left_->size(), 1U);
  EXPECT_EQ(left_->front().process, process_);
  EXPECT_EQ(left_->front().error.code, Errc::denied);
  send(kSubordinate);
  worker_.run_all();
  EXPECT_TRUE(ends());
}

TEST_F(Signals, StuckWorkerDoesNotDelaySignals) {
  observe(false);
  loop_.advance(LeaseObserver::kReplyTimeout);
  send({});
  EXPECT_TRUE(ends());
  EXPECT_FALSE(left_) << "never inside the call";
  loop_.run_posted();
  EXPECT_THAT(*left_, IsEmpty());
}

TEST_F(Signals, AnswerWithEveryProcessAfterTheDeadline) {
  send({});
  loop_.advance(LeaseObserver::kReplyTimeout);
  ASSERT_TRUE(left_ && left_->size() == 1);
  EXPECT_EQ(left_->front().error.code, Errc::unavailable);
  worker_.run_all();
  EXPECT_TRUE(ends()) << "the worker sends it all the same";
  EXPECT_EQ(answers_, 1);
}

}  // namespace
}  // namespace gpuyard::daemon
