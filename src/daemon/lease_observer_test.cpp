#include "daemon/lease_observer.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/captured_log_for_tests.h"
#include "base/manual_loop.h"
#include "base/manual_worker_for_tests.h"
#include "device/catalog.h"
#include "processes/proc_tree_for_tests.h"

namespace gpuyard::daemon {
namespace {

using lease::Seen;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The clock of these tests stands at an hour after the boot.
constexpr std::uint64_t kStartTicks = 6000;
class ObserverTest : public ::testing::Test, protected telemetry::Reader {
 protected:
  ObserverTest() {
    proc_.put({.pid = 1, .parent = 0});
    proc_.put({.pid = 10, .start_ticks = kStartTicks});
    proc_.put({.pid = 11, .start_ticks = kStartTicks, .parent = 10});
    Fleet fleet;
    fleet.driver.simulated = true;
    fleet.devices.push_back({"G0", 0, "G0", "", "H100", {}});
    telemetry_.on_fleet(fleet);
    answer();
    loop_.run_posted();
  }

  bool read(const ReadRequest& request) override {
    requests_.push_back(request);
    return true;
  }
  // What the driver says to all it is asked; each answer may bring another question.
  void answer() {
    while (!requests_.empty()) {
      const ReadRequest request = requests_.back();
      requests_.pop_back();
      Sample sample;
      request.probes.each([&](Probe probe) {
        for (const Metric metric : row_of(probe).fills) {
          sample.set({metric, 0, loop_.now(), std::int64_t{1}});
        }
      });
      if (request.probes.contains(Probe::processes)) {
        sample.set(ProcessList{loop_.now(), std::vector<GpuProcess>{{11, {}, 1000, {}}}});
      }
      telemetry_.on_reply({request.id, request.device, sample});
    }
  }
  void look(bool fresh) {
    observer_.look({{.lease = "a",
                     .uid = 5,
                     .gpus = {"G0"},
                     .processes = {{10, TimePoint{std::chrono::minutes(1)}}}}},
                   {"G0"}, fresh,
                   [this](lease::Sight sight) { sights_.push_back(std::move(sight)); });
  }
  static std::vector<std::uint32_t> alive_in(const lease::Sight& sight) {
    std::vector<std::uint32_t> pids;
    for (const lease::Process& process : sight.alive.at("a")) pids.push_back(process.pid);
    return pids;
  }

  const CapturedLog log_;
  ManualLoop loop_;
  ManualWorker worker_;
  std::vector<ReadRequest> requests_;
  telemetry::Telemetry telemetry_{loop_, *this};
  processes::ProcTree proc_;
  LeaseObserver observer_{loop_, worker_, telemetry_, {proc_.root(), proc_.root()}};
  std::vector<lease::Sight> sights_;
};

TEST_F(ObserverTest, LooksAtTheNewestLists) {
  look(false);
  EXPECT_TRUE(requests_.empty()) << "the driver is not asked";
  EXPECT_THAT(sights_, IsEmpty()) << "never inside the call";
  worker_.run_all();
  ASSERT_EQ(sights_.size(), 1U);
  EXPECT_EQ(sights_[0].on_gpus.at("G0")->front().verdict, Seen::Verdict::member);
  EXPECT_THAT(alive_in(sights_[0]), ElementsAre(10, 11));
  loop_.advance(LeaseObserver::kDeadline);
  EXPECT_EQ(sights_.size(), 1U) << "once";
}

TEST_F(ObserverTest, LooksAtListsThatAreMadeAfterTheQuestion) {
  loop_.advance(std::chrono::milliseconds(500));
  answer();
  const TimePoint asked = loop_.now();
  look(true);
  ASSERT_EQ(requests_.size(), 1U);
  EXPECT_EQ(requests_[0].probes, (ProbeSet{Probe::processes, Probe::memory}));
  answer();
  worker_.run_all();
  ASSERT_EQ(sights_.size(), 1U);
  EXPECT_GE(sights_[0].taken, asked);
  EXPECT_EQ(sights_[0].on_gpus.at("G0")->size(), 1U);
}

TEST_F(ObserverTest, AGpuThatDoesNotAnswerHasNoList) {
  loop_.advance(std::chrono::milliseconds(500));
  look(true);
  loop_.advance(telemetry::kFreshDeadline);
  worker_.run_all();
  ASSERT_EQ(sights_.size(), 1U);
  EXPECT_EQ(sights_[0].on_gpus.at("G0"), std::nullopt);
  EXPECT_THAT(alive_in(sights_[0]), ElementsAre(10, 11)) << "these are known all the same";
}

TEST_F(ObserverTest, AStuckWorkerTakesNobodyForGone) {
  proc_.remove(10);
  look(false);
  loop_.advance(LeaseObserver::kDeadline);
  ASSERT_EQ(sights_.size(), 1U);
  EXPECT_EQ(sights_[0].on_gpus.at("G0"), std::nullopt);
  EXPECT_THAT(alive_in(sights_[0]), ElementsAre(10));

  look(false);
  EXPECT_EQ(worker_.waiting(), 1U) << "it is asked for nothing more";
  EXPECT_EQ(sights_.size(), 1U) << "never inside the call";
  loop_.run_posted();
  EXPECT_EQ(sights_.size(), 2U);

  worker_.run_all();
  EXPECT_EQ(sights_.size(), 2U) << "too late";
  look(false);
  worker_.run_all();
  ASSERT_EQ(sights_.size(), 3U);
  EXPECT_THAT(alive_in(sights_[2]), IsEmpty()) << "it answers again";
}

TEST_F(ObserverTest, TheWorkerIsNotAskedForTooMuch) {
  for (std::size_t i = 0; i < LeaseObserver::kMostAsked + 3; ++i) look(false);
  EXPECT_EQ(worker_.waiting(), LeaseObserver::kMostAsked);
  loop_.run_posted();
  EXPECT_EQ(sights_.size(), 3U);
  worker_.run_all();
  EXPECT_EQ(sights_.size(), LeaseObserver::kMostAsked + 3);
}

TEST_F(ObserverTest, AWorkerThatTakesNothingIsNoSilence) {
  worker_.full = true;
  look(false);
  Errc code = {};
  observer_.identify(1, [&](const Result<lease::Identity>& who) { code = who.error().code; });
  EXPECT_EQ(sights_.size(), 0U);
  EXPECT_EQ(code, Errc{});
  loop_.run_posted();
  EXPECT_EQ(sights_.size(), 1U);
  EXPECT_EQ(code, Errc::unavailable);
}

TEST_F(ObserverTest, TheProcessesOfARecordingAreNobodys) {
  LeaseObserver observer(loop_, worker_, telemetry_, {proc_.root(), proc_.root(), true});
  observer.look({}, {"G0"}, false,
                [this](lease::Sight sight) { sights_.push_back(std::move(sight)); });
  worker_.run_all();
  EXPECT_EQ(sights_.at(0).on_gpus.at("G0")->front().verdict, Seen::Verdict::unknown);
}

TEST_F(ObserverTest, IdentifiesAProcess) {
  std::optional<Result<lease::Identity>> who;
  const auto pid = static_cast<std::uint32_t>(::getpid());
  observer_.identify(pid, [&](Result<lease::Identity> found) { who = std::move(found); });
  EXPECT_FALSE(who);
  worker_.run_all();
  ASSERT_TRUE(who && *who);
  EXPECT_EQ((*who)->process.pid, pid);
  EXPECT_EQ((*who)->command, "daemon_test");
  EXPECT_TRUE(*(*who)->fd);
  loop_.advance(LeaseObserver::kDeadline);
  EXPECT_TRUE(*who) << "the deadline comes to nothing";
}

TEST_F(ObserverTest, WhoCannotBeIdentifiedInTimeIsNotGone) {
  Errc code = {};
  observer_.identify(1, [&](const Result<lease::Identity>& who) { code = who.error().code; });
  loop_.advance(LeaseObserver::kDeadline);
  EXPECT_EQ(code, Errc::unavailable);
}

class Signals : public ObserverTest {
 protected:
  Signals() : child_(::fork()) {
    while (child_ == 0) ::pause();
    observer_.identify(static_cast<std::uint32_t>(child_),
                       [this](Result<lease::Identity> found) { process_ = found->process; });
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

  pid_t child_;
  lease::Process process_;
};

TEST_F(Signals, GoOutFromTheWorker) {
  observer_.signal({process_}, SIGTERM, {});
  EXPECT_EQ(worker_.waiting(), 1U);
  worker_.run_all();
  EXPECT_TRUE(ends());
}

TEST_F(Signals, DoNotWaitForAWorkerThatIsStuck) {
  look(false);
  loop_.advance(LeaseObserver::kDeadline);
  observer_.signal({process_}, SIGTERM, {});
  EXPECT_TRUE(ends());
}

}  // namespace
}  // namespace gpuyard::daemon
