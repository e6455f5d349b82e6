#include "faces/zeus/ports_for_tests.h"

namespace gpuyard::zeus {
namespace {

constexpr const char* kEnergy = "/cpu/get_cumulative_energy?cpu=true&dram=true";

class CpuReads : public FacadeTest {
 protected:
  // Returns the answer to a request that takes two readings; `meanwhile` runs between them.
  http::Response measured(const std::string& target, const std::function<void()>& meanwhile) {
    send(http::Method::get, target);
    EXPECT_TRUE(answers_.empty());
    meanwhile();
    loop_.advance(cpu::CpuEnergyMonitor::kPeriod);
    settle();
    return answers_.empty() ? http::Response() : answers_.front();
  }
};

TEST_F(CpuReads, EnergyIsNullWhereThereIsNone) {
  EXPECT_EQ(got(kEnergy), R"({"0":{"cpu_energy_uj":1000000,"dram_energy_uj":2000},)"
                          R"("1":{"cpu_energy_uj":3000000,"dram_energy_uj":null}})");
}

TEST_F(CpuReads, EnergyThatIsNotWantedIsNull) {
  EXPECT_EQ(got("/cpu/get_cumulative_energy?cpu_ids=0&cpu=false&dram=true"),
            R"({"0":{"cpu_energy_uj":null,"dram_energy_uj":2000}})");
  EXPECT_EQ(got("/cpu/get_cumulative_energy?cpu_ids=0&cpu=true&dram=false"),
            R"({"0":{"cpu_energy_uj":1000000,"dram_energy_uj":null}})");
}

TEST_F(CpuReads, EnergyGoesOnWhenACounterGoesRound) {
  got(kEnergy);
  cpu::RaplTree::set(tree_.package(0), 5);
  EXPECT_THAT(got(kEnergy), testing::HasSubstr(std::to_string(cpu::RaplTree::kRange + 5)));
}

TEST_F(CpuReads, UnreadableCounterIsErrorPerPackage) {
  std::filesystem::remove(tree_.package(1) + "/energy_uj");
  const auto answer = get(kEnergy);
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(text(answer), testing::HasSubstr(R"({"errors":{"1":"opening )"));
  EXPECT_EQ(get("/cpu/get_cumulative_energy?cpu_ids=0&cpu=true&dram=true").status, 200);
  cpu::RaplTree::write(tree_.subzone(0, 1) + "/energy_uj", "nonsense");
  EXPECT_EQ(get("/cpu/get_cumulative_energy?cpu_ids=0&cpu=true&dram=true").status, 500);
  EXPECT_EQ(get("/cpu/get_cumulative_energy?cpu_ids=0&cpu=true&dram=false").status, 200);
}

TEST_F(CpuReads, VanishedCpuIsReportedGone) {
  got(kEnergy);
  std::filesystem::remove_all(tree_.package(1));
  EXPECT_THAT(text(get(kEnergy)), testing::HasSubstr("are no longer present"));
}

TEST_F(CpuReads, PowerIsEnergyOverTime) {
  EXPECT_EQ(measured("/cpu/get_power?cpu_ids=0", [] {}).status, 200);
  EXPECT_THAT(text(answers_[0]),
              testing::HasSubstr(R"("power_mw":{"0":{"cpu_mw":0,"dram_mw":0}}})"));
  const auto answer = measured("/cpu/get_power", [this] {
    cpu::RaplTree::set(tree_.package(0), 1'000'500);
    cpu::RaplTree::set(tree_.package(1), 3'000'500);
  });
  EXPECT_THAT(text(answer),
              ::testing::MatchesRegex(R"(\{"timestamp_ms":17[0-9]+,"power_mw":\{)"
                                      R"("0":\{"cpu_mw":[1-9][0-9]*,"dram_mw":0\},)"
                                      R"("1":\{"cpu_mw":[1-9][0-9]*,"dram_mw":null\}\}\})"));
}

TEST_F(CpuReads, FailingCounterPowerIsErrorNotZero) {
  const auto answer = measured("/cpu/get_power", [this] {
    cpu::RaplTree::write(tree_.package(0) + "/energy_uj", "nonsense");
  });
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(text(answer), testing::HasSubstr("does not contain a number of microjoules"));
}

TEST_F(CpuReads, MissingCountersDisableReadsWithReason) {
  std::filesystem::remove_all(tree_.root());
  for (const char* target :
       {kEnergy, "/cpu/get_power", "/cpu/stream_power", "/cpu/get_power?x=1"}) {
    const auto answer = get(target);
    EXPECT_EQ(answer.status, 404) << target;
    EXPECT_THAT(text(answer), testing::HasSubstr(R"({"error":"cpu-read is off: reading )"));
  }
}

TEST_F(CpuReads, AStuckWorkerIsAnErrorAfterAWhile) {
  got(kEnergy);
  worker_.full = true;
  for (const char* target : {kEnergy, "/cpu/get_power"}) {
    send(http::Method::get, target);
    EXPECT_TRUE(answers_.empty());
    loop_.advance(cpu::CpuEnergyMonitor::kReadTimeout);
    ASSERT_EQ(answers_.size(), 1U);
    EXPECT_EQ(answers_[0].status, 500);
    EXPECT_THAT(text(answers_[0]), testing::HasSubstr("took too long"));
  }
}

class OverTcp : public CpuReads {
 protected:
  OverTcp() { peer_ = http::Peer{}; }
  Facade open_{{loop_, gpus_, control_, cpus_, coarse_cpus_, true, "1.2.3"}};
};

TEST_F(OverTcp, CpusAreUnavailableByDefault) {
  for (const char* target : {kEnergy, "/cpu/get_power", "/cpu/stream_power"}) {
    const auto answer = get(target);
    EXPECT_EQ(answer.status, 403) << target;
    EXPECT_THAT(text(answer), testing::HasSubstr("cpu_over_tcp"));
  }
  EXPECT_THAT(got("/discover"), testing::HasSubstr(R"("cpus":[])"));
}

TEST_F(OverTcp, ThereAreWholeJoulesOnceASecond) {
  served_ = &open_;
  cpu::RaplTree::set(tree_.package(0), 7'999'999);
  EXPECT_EQ(got(kEnergy), R"({"0":{"cpu_energy_uj":7000000,"dram_energy_uj":0},)"
                          R"("1":{"cpu_energy_uj":3000000,"dram_energy_uj":null}})");
  cpu::RaplTree::set(tree_.package(0), 9'000'000);
  loop_.advance(CoarseEnergyMonitor::kPeriod - milliseconds(1));
  EXPECT_THAT(got(kEnergy), testing::HasSubstr(R"("cpu_energy_uj":7000000)"));
  loop_.advance(milliseconds(1));
  EXPECT_THAT(got(kEnergy), testing::HasSubstr(R"("cpu_energy_uj":9000000)"));
}

TEST_F(OverTcp, AStreamIsNoFiner) {
  std::vector<std::int64_t> values;
  const auto subscription = coarse_cpus_.subscribe(
      [&](const cpu::Energies& read) { values.push_back(*read.packages[0].energy_uj); });
  std::int64_t energy_uj = 5'999'999;
  for (int tenth = 0; tenth < 30; ++tenth) {
    cpu::RaplTree::set(tree_.package(0), energy_uj += 50'000);
    loop_.advance(cpu::CpuEnergyMonitor::kPeriod);
    settle();
  }
  EXPECT_EQ(values, (std::vector<std::int64_t>{6'000'000, 6'000'000, 7'000'000}));
}

}  // namespace
}  // namespace gpuyard::zeus
