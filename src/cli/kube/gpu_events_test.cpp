#include "cli/kube/gpu_events.h"

#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuyard::cli::kube {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Two good GPUs, and no Event yet.
class KubeEvents : public testing::Test {
 protected:
  KubeEvents() {
    desired_.is_known = true;
    desired_.is_complete = true;
    desired_.condition = ConditionText{ConditionStatus::yes, "GPUsGood", "2 of 2 GPUs are good"};
    desired_.gpus = {{0, "GPU-a", Verdict::good}, {1, "GPU-b", Verdict::good}};
  }

  void make_bad(std::size_t gpu, const std::string& rule = "xid-fatal") {
    desired_.gpus.at(gpu).verdict = Verdict::bad;
    desired_.gpus.at(gpu).rule = rule;
    desired_.gpus.at(gpu).message = "GPU: " + rule + ". Reset it.";
  }
  void make(std::size_t gpu, Verdict verdict) {
    desired_.gpus.at(gpu).verdict = verdict;
    desired_.gpus.at(gpu).rule.clear();
    desired_.gpus.at(gpu).message.clear();
  }
  // What has to be written, as "Warning XidFatal". Counts it as written.
  std::vector<std::string> next() {
    std::vector<std::string> texts;
    last_ = events_of(desired_, reported_);
    for (const GpuEvent& event : last_) {
      texts.push_back((event.is_warning() ? "Warning " : "Normal ") + event.reason);
      record_event(reported_, event);
    }
    EXPECT_THAT(events_of(desired_, reported_), IsEmpty()) << "it was reported";
    return texts;
  }

  Desired desired_;
  ReportedEvents reported_;
  std::vector<GpuEvent> last_;
};

TEST_F(KubeEvents, GoodGpusGiveNone) {
  EXPECT_THAT(next(), IsEmpty());
}

TEST_F(KubeEvents, BadGpuIsAWarningWithAdvice) {
  make_bad(0);
  EXPECT_THAT(next(), ElementsAre("Warning XidFatal"));
  EXPECT_EQ(last_[0].message, "GPU: xid-fatal. Reset it.");
}

TEST_F(KubeEvents, NewMessageAloneGivesNone) {
  make_bad(0);
  next();
  desired_.gpus[0].message = "GPU: it has not responded for 7 s.";
  EXPECT_THAT(next(), IsEmpty());
}

TEST_F(KubeEvents, AnotherRuleIsAnotherWarning) {
  make_bad(0);
  next();
  make_bad(0, "gpu-lost");
  EXPECT_THAT(next(), ElementsAre("Warning GpuLost"));
}

TEST_F(KubeEvents, GoodGpuEndsItsAlert) {
  make_bad(0);
  next();
  make(0, Verdict::good);
  EXPECT_THAT(next(), ElementsAre("Normal GPUHealthy"));
  EXPECT_EQ(last_[0].message, "GPU 0 (GPU-a) is healthy: the alert xid-fatal has ended");
  EXPECT_EQ(reported_, ReportedEvents{});
}

TEST_F(KubeEvents, UnknownVerdictCreatesNoEvent) {
  make(0, Verdict::unknown);
  EXPECT_THAT(next(), IsEmpty());
  make_bad(0);
  next();
  make(0, Verdict::unknown);
  EXPECT_THAT(next(), IsEmpty());
  make_bad(0);
  EXPECT_THAT(next(), IsEmpty()) << "the same alert goes on";
}

TEST_F(KubeEvents, UnreachableDaemonCreatesNoEvent) {
  make_bad(0);
  next();
  make(0, Verdict::good);
  make_bad(1);
  desired_.is_known = false;
  EXPECT_THAT(next(), IsEmpty());
}

TEST_F(KubeEvents, CordonBeginsAndEnds) {
  desired_.gpus[1].cordoned = true;
  desired_.gpus[1].cordon_reason = "new fan";
  EXPECT_THAT(next(), ElementsAre("Normal GPUCordoned"));
  EXPECT_EQ(last_[0].message, "GPU 1 (GPU-b) is cordoned: new fan");
  make_bad(1);
  EXPECT_THAT(next(), ElementsAre("Warning XidFatal"));
  desired_.gpus[1].cordoned = false;
  EXPECT_THAT(next(), ElementsAre("Normal GPUUncordoned"));
  EXPECT_EQ(last_[0].message, "GPU 1 (GPU-b) is no longer cordoned");
}

TEST_F(KubeEvents, DriverDownBeginsAndEnds) {
  make_bad(0);
  next();
  const auto gpus = std::exchange(desired_.gpus, {});
  desired_.is_complete = false;
  EXPECT_THAT(next(), IsEmpty()) << "no alert yet";
  desired_.driver_down = true;
  desired_.condition->message = "no driver: not loaded";
  EXPECT_THAT(next(), ElementsAre("Warning DriverDown"));
  EXPECT_EQ(last_[0].message, "no driver: not loaded");
  desired_.driver_down = false;
  EXPECT_THAT(next(), IsEmpty()) << "its alert was acknowledged";
  desired_.gpus = gpus;
  desired_.is_complete = true;
  EXPECT_THAT(next(), ElementsAre("Normal DriverUp"));
}

TEST_F(KubeEvents, RemovedGpuEndsItsAlert) {
  make_bad(1);
  next();
  desired_.gpus.pop_back();
  desired_.is_complete = false;
  EXPECT_THAT(next(), IsEmpty()) << "the list lacks GPUs";
  desired_.is_complete = true;
  EXPECT_THAT(next(), ElementsAre("Normal GPURemoved"));
  EXPECT_EQ(last_[0].message, "GPU-b is no longer in this machine: the alert xid-fatal has ended");
  EXPECT_EQ(reported_, ReportedEvents{});
}

TEST_F(KubeEvents, WarningsComeFirst) {
  make_bad(0);
  next();
  make(0, Verdict::good);
  make_bad(1);
  EXPECT_THAT(next(), ElementsAre("Warning XidFatal", "Normal GPUHealthy"));
}

TEST_F(KubeEvents, TextsFitTheirLimits) {
  make_bad(0, std::string(200, 'x'));
  desired_.gpus[0].message = std::string(2000, 'm');
  next();
  EXPECT_THAT(last_[0].reason, SizeIs(kMaxEventReasonBytes));
  EXPECT_THAT(last_[0].message, SizeIs(kMaxEventMessageBytes));
  EXPECT_THAT(last_[0].message, EndsWith("m..."));
}

TEST_F(KubeEvents, AlertWithoutRuleHasAReason) {
  make_bad(0, "");
  EXPECT_THAT(next(), ElementsAre("Warning GPUBad"));
  make(0, Verdict::good);
  EXPECT_THAT(next(), ElementsAre("Normal GPUHealthy"));
  EXPECT_THAT(last_[0].message, HasSubstr("its alert has ended"));
}

TEST_F(KubeEvents, GpuWithoutUuidGivesNone) {
  make_bad(0);
  desired_.gpus[0].uuid.clear();
  EXPECT_THAT(next(), IsEmpty());
}

TEST(KubeEventLimit, TwentyWithinAnHourFillIt) {
  EventLimit limit;
  TimePoint now{std::chrono::hours(1)};
  EXPECT_TRUE(limit.is_unused(now));
  for (std::size_t i = 0; i < kMaxEvents; ++i) {
    EXPECT_TRUE(limit.has_room(now));
    limit.add(now);
    now += seconds(1);
  }
  EXPECT_FALSE(limit.has_room(now));
  now += minutes(60) - seconds(21);
  EXPECT_FALSE(limit.has_room(now));
  now += seconds(1);
  EXPECT_TRUE(limit.has_room(now)) << "the first was an hour ago";
  EXPECT_FALSE(limit.is_unused(now));
}

}  // namespace
}  // namespace gpuyard::cli::kube
