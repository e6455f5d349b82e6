#include "cli/kube/plugin_reporter.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/kube/log_lines_for_tests.h"

namespace gpuyard::cli::kube {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

using Uuids = std::set<std::string>;

protocol::GpuVerdicts verdicts_of(const std::vector<std::string>& uuids) {
  protocol::GpuVerdicts verdicts;
  for (const std::string& uuid : uuids) {
    protocol::GpuVerdict& gpu = verdicts.gpus.emplace_back();
    gpu.uuid = uuid;
    gpu.verdict = Verdict::good;
  }
  verdicts.count = verdicts.gpus.size();
  return verdicts;
}

TEST(KubeHiddenGpus, GpusThatAreNotOfferedAreHidden) {
  struct Row {
    const char* title;
    std::vector<std::string> gpus;
    std::optional<Uuids> offered;
    std::optional<Uuids> hidden;
  };
  const std::vector<Row> rows = {
      {"all are offered", {"GPU-0", "GPU-1"}, Uuids{"GPU-0", "GPU-1"}, Uuids{}},
      {"one is not", {"GPU-0", "GPU-1"}, Uuids{"GPU-0"}, Uuids{"GPU-1"}},
      {"the kubelet does not say", {"GPU-0", "GPU-1"}, std::nullopt, std::nullopt},
      {"the driver lists none", {}, Uuids{"GPU-0"}, Uuids{}},
      {"the driver does not list the offered one", {"GPU-1"}, Uuids{"GPU-0"}, Uuids{"GPU-1"}},
      {"a GPU without a UUID", {"", "GPU-0"}, Uuids{"GPU-0"}, Uuids{}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(hidden_gpus(verdicts_of(row.gpus), row.offered, {}), row.hidden) << row.title;
  }
}

TEST(KubeHiddenGpus, GpuOfAResourceSliceIsNotHidden) {
  const std::vector<SliceDevice> devices = {{"n1", "gpu.nvidia.com", "n1", "gpu-1", "GPU-1"}};
  EXPECT_EQ(hidden_gpus(verdicts_of({"GPU-0", "GPU-1", "GPU-2"}), Uuids{"GPU-0"}, devices),
            Uuids{"GPU-2"});
}

class FakeOfferedGpus final : public OfferedGpusView {
 public:
  std::optional<Uuids> fetch_offered() override {
    ++calls;
    return offered;
  }

  std::optional<Uuids> offered = Uuids{"GPU-0", "GPU-1"};
  int calls = 0;
};

class FakePluginReports final : public PluginReportView {
 public:
  Result<void> report_hidden(const Uuids& uuids) override {
    ++calls;
    if (fails_with) return *fails_with;
    accepted.push_back(uuids);
    return {};
  }

  std::optional<Error> fails_with;
  std::vector<Uuids> accepted;
  int calls = 0;
};

class KubePluginReporter : public testing::Test {
 protected:
  // A round a second, as the agent's loop has them.
  void pass(Duration time, bool daemon_answers = true) {
    for (const TimePoint end = now_ + time; now_ < end; now_ += seconds(1)) {
      reporter_.run_round(daemon_answers ? &verdicts_ : nullptr, {});
    }
  }

  CapturedLog log_;
  TimePoint now_{std::chrono::hours(1)};
  protocol::GpuVerdicts verdicts_ = verdicts_of({"GPU-0", "GPU-1"});
  FakeOfferedGpus kubelet_;
  FakePluginReports daemon_;
  PluginReporter reporter_{kubelet_, daemon_, [this] { return now_; }};
};

TEST_F(KubePluginReporter, ReportIsRepeatedEachMinute) {
  pass(minutes(3));
  EXPECT_THAT(daemon_.accepted, ElementsAre(IsEmpty(), IsEmpty(), IsEmpty()));
  EXPECT_EQ(kubelet_.calls, 12);
  EXPECT_THAT(CapturedLog::lines(), IsEmpty());
}

TEST_F(KubePluginReporter, ChangeIsReportedWithTheNextAnswer) {
  pass(seconds(1));
  kubelet_.offered = Uuids{"GPU-1"};
  pass(seconds(15));
  EXPECT_THAT(daemon_.accepted, ElementsAre(IsEmpty(), ElementsAre("GPU-0")));
  kubelet_.offered = Uuids{"GPU-0", "GPU-1"};
  pass(seconds(15));
  EXPECT_THAT(daemon_.accepted, ElementsAre(IsEmpty(), ElementsAre("GPU-0"), IsEmpty()));
  EXPECT_THAT(CapturedLog::lines(), ElementsAre("INFO the device plugin does not offer GPU-0",
                                                "INFO the device plugin offers all GPUs"));
}

TEST_F(KubePluginReporter, NoReportWithoutKubelet) {
  pass(seconds(1));
  kubelet_.offered.reset();
  pass(minutes(10));
  EXPECT_THAT(daemon_.accepted, SizeIs(1));
  kubelet_.offered = Uuids{"GPU-0"};
  pass(seconds(15));
  EXPECT_THAT(daemon_.accepted, ElementsAre(IsEmpty(), ElementsAre("GPU-1")));
}

TEST_F(KubePluginReporter, HiddenGpusAreThoseOfTheLastAnswer) {
  EXPECT_THAT(reporter_.hidden(), IsEmpty());
  kubelet_.offered = Uuids{"GPU-1"};
  pass(seconds(1));
  EXPECT_THAT(reporter_.hidden(), ElementsAre("GPU-0"));
  kubelet_.offered.reset();
  pass(seconds(15));
  EXPECT_THAT(reporter_.hidden(), IsEmpty()) << "the kubelet does not say";
}

TEST_F(KubePluginReporter, NoGpuIsHiddenThatTheDaemonDoesNotKnowOf) {
  kubelet_.offered = Uuids{"GPU-1"};
  pass(seconds(1));
  pass(seconds(1), false);
  EXPECT_THAT(reporter_.hidden(), IsEmpty()) << "the daemon is silent";
  daemon_.fails_with = Error{Errc::denied, "no"};
  pass(seconds(15));
  EXPECT_THAT(reporter_.hidden(), IsEmpty()) << "it refuses the report";
}

TEST_F(KubePluginReporter, RestartedDaemonGetsTheReportAtOnce) {
  pass(seconds(16));
  EXPECT_THAT(daemon_.accepted, SizeIs(1));
  pass(seconds(20), false);
  EXPECT_EQ(kubelet_.calls, 2) << "nothing to do with an answer";
  pass(seconds(1));
  EXPECT_THAT(daemon_.accepted, SizeIs(2));
}

TEST_F(KubePluginReporter, OlderDaemonIsAskedEveryFiveMinutesAndLoggedOnce) {
  daemon_.fails_with = Error{Errc::not_found, "no such route"};
  pass(minutes(15));
  EXPECT_EQ(daemon_.calls, 3);
  EXPECT_EQ(kubelet_.calls, 3);
  EXPECT_EQ(count_lines("the daemon is older than this program"), 1);
  daemon_.fails_with.reset();
  pass(seconds(1));
  EXPECT_THAT(daemon_.accepted, SizeIs(1));
  EXPECT_EQ(count_lines("the daemon accepts reports of the device plugin again"), 1);
}

TEST_F(KubePluginReporter, LostReportIsSentAgainWithTheNextAnswer) {
  daemon_.fails_with = Error{Errc::timed_out, "no answer in time"};
  pass(seconds(30));
  EXPECT_EQ(daemon_.calls, 2);
  EXPECT_EQ(count_lines("no answer in time"), 1);
  daemon_.fails_with.reset();
  pass(seconds(1));
  EXPECT_THAT(daemon_.accepted, SizeIs(1));
}

}  // namespace
}  // namespace gpuyard::cli::kube
