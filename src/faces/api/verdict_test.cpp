#include "faces/protocol/verdict.h"

#include "faces/api/answering_reader_for_tests.h"
#include "faces/api/routes_for_tests.h"

namespace gpuyard::api {
namespace {

using protocol::GpuVerdict;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kPath = "/api/gpu/verdict";

class VerdictRoute : public LeaseRoutes {
 protected:
  VerdictRoute() { alert_service_.replace({andon::quarantining()}); }

  // The GPUs are read from now on.
  void read_gpus() {
    driver_.reader = &reader_;
    pass(std::chrono::seconds(6));  // the slow tier, too
  }
  void make_hot() {
    for (int i = 0; i < 12; ++i) {
      pass(std::chrono::seconds(1));
      alert_service_.tick(andon::at_temperature(91));
    }
  }
  protocol::GpuVerdicts verdicts(http::Peer peer = over_tcp()) {
    const auto call = get(kPath, std::move(peer));
    auto read = json::from_json<protocol::GpuVerdicts>(call->text());
    EXPECT_TRUE(read) << call->text();
    return read ? *read : protocol::GpuVerdicts{};
  }

  AnsweringReader reader_{loop_, telemetry_};
};

TEST_F(VerdictRoute, UnreadGpuIsUnknown) {
  const auto all = verdicts();
  ASSERT_EQ(all.gpus.size(), 2U);
  EXPECT_EQ(all.gpus[1].index, 1U);
  EXPECT_EQ(all.gpus[1].verdict, Verdict::unknown);
  EXPECT_THAT(all.gpus[1].why, HasSubstr("not read yet"));
  EXPECT_FALSE(all.driver_down);
}

TEST_F(VerdictRoute, ReadGpuWithoutAlertIsGood) {
  read_gpus();
  const GpuVerdict gpu = verdicts().gpus.at(0);
  EXPECT_EQ(gpu.verdict, Verdict::good) << gpu.why;
  EXPECT_THAT(gpu.why, IsEmpty());
  EXPECT_EQ(gpu.rule, std::nullopt);
}

TEST_F(VerdictRoute, QuarantinedGpuIsBadUntilAcknowledged) {
  read_gpus();
  make_hot();
  const auto all = verdicts();
  EXPECT_EQ(all.gpus.at(0).verdict, Verdict::bad);
  EXPECT_EQ(all.gpus.at(0).rule, "hot");
  EXPECT_EQ(all.gpus.at(0).why, "GPU 0 is at 91 C");
  EXPECT_EQ(all.gpus.at(0).advice, "Cool it.");
  EXPECT_EQ(all.gpus.at(1).verdict, Verdict::good);
  post("/api/gpu/alerts/1/acknowledge", "", local_user(0));
  EXPECT_EQ(verdicts().gpus.at(0).verdict, Verdict::good);
}

// Alerts have hold times: what only reads badly now is not bad yet.
TEST_F(VerdictRoute, BadReadingsWithoutAlertAreUnknown) {
  reader_.numbers[Metric::temperature_core] = 120;
  read_gpus();
  const GpuVerdict gpu = verdicts().gpus.at(0);
  EXPECT_EQ(gpu.verdict, Verdict::unknown);
  EXPECT_THAT(gpu.why, HasSubstr("(no alert quarantines it)"));
}

TEST_F(VerdictRoute, MigModeIsNotBad) {
  reader_.numbers[Metric::mig_mode] = 1;
  read_gpus();
  EXPECT_EQ(verdicts().gpus.at(0).verdict, Verdict::good);
}

TEST_F(VerdictRoute, MigModeIsNotGoodWithUnknownReadings) {
  reader_.numbers[Metric::mig_mode] = 1;
  reader_.lists_processes = false;
  read_gpus();
  const GpuVerdict gpu = verdicts().gpus.at(0);
  EXPECT_EQ(gpu.verdict, Verdict::unknown);
  EXPECT_THAT(gpu.why, HasSubstr("processes"));
}

TEST_F(VerdictRoute, CordonIsNoVerdict) {
  read_gpus();
  ask(http::Method::put, "/api/gpu/manage/1/cordon", R"({"reason":"fan"})", local_user(0));
  const auto all = verdicts();
  EXPECT_EQ(all.gpus.at(0).cordoned, std::nullopt);
  EXPECT_EQ(all.gpus.at(1).cordoned, "fan");
  EXPECT_EQ(all.gpus.at(1).verdict, Verdict::good);
}

TEST_F(VerdictRoute, MissingDriverMakesEveryGpuUnknown) {
  read_gpus();
  telemetry_.on_host_down("driver-host exited");
  const auto all = verdicts();
  EXPECT_EQ(all.driver_error, "driver-host exited");
  for (const GpuVerdict& gpu : all.gpus) EXPECT_EQ(gpu.verdict, Verdict::unknown);
}

TEST_F(VerdictRoute, ShowsATokenItsOwnGpusAlone) {
  token_ = made({.name = "one", .uid = kAlice, .gpus = {"GPU-1"}, .made_by = "uid 0"}).text;
  const auto all = verdicts(over_tls());
  ASSERT_EQ(all.gpus.size(), 1U);
  EXPECT_EQ(all.gpus[0].index, 1U);
}

}  // namespace
}  // namespace gpuyard::api
