#include "faces/zeus/ports_for_tests.h"

namespace gpuyard::zeus {
namespace {

class Streams : public FacadeTest {
 protected:
  std::shared_ptr<http::ResponseStream> listen(const std::string& target) {
    const auto answer = get(target);
    EXPECT_EQ(answer.status, 200) << text(answer);
    EXPECT_EQ(answer.content_type, "text/event-stream");
    return answer.stream;
  }
  void publish_power(const DeviceId& gpu, std::variant<Missing, std::int64_t, std::string> value) {
    gpus_.listeners.at(gpu)({Metric::power_draw_instant, 0, loop_.now(), std::move(value)});
  }
  static std::string next(http::ResponseStream& power_stream) {
    return std::string(power_stream.next().text());
  }
};

TEST_F(Streams, PowerEventHasZeusFormat) {
  RecordProperty("contract", "B19");
  const auto power_stream = listen("/gpu/stream_power?gpu_ids=1");
  EXPECT_EQ(gpus_.last_period, milliseconds(50));
  EXPECT_EQ(next(*power_stream), "");
  publish_power("GPU-1", std::int64_t{75'000});
  EXPECT_EQ(next(*power_stream),
            "data: {\"timestamp_ms\":1700000000000,\"gpu_id\":1,\"power_mw\":75000}\n\n");
  EXPECT_EQ(next(*power_stream), "");
}

TEST_F(Streams, TheTimeIsThatOfTheReading) {
  const auto power_stream = listen("/gpu/stream_power?gpu_ids=1");
  publish_power("GPU-1", std::int64_t{75'000});
  loop_.advance(seconds(2));
  EXPECT_THAT(next(*power_stream), testing::HasSubstr("1700000000000"));
}

TEST_F(Streams, AllGpusTakeTurnsWithNewestPower) {
  const auto power_stream = listen("/gpu/stream_power");
  EXPECT_EQ(gpus_.listeners.size(), 3U);
  for (const std::int64_t power : {1, 2, 3}) {
    publish_power("GPU-0", power);
    publish_power("GPU-2", power * 10);
  }
  EXPECT_THAT(next(*power_stream), testing::HasSubstr(R"("gpu_id":0,"power_mw":3})"));
  loop_.advance(milliseconds(50));
  publish_power("GPU-0", std::int64_t{4});
  EXPECT_THAT(next(*power_stream), testing::HasSubstr(R"("gpu_id":2,"power_mw":30})"));
  EXPECT_THAT(next(*power_stream), testing::HasSubstr(R"("gpu_id":0,"power_mw":4})"));
  EXPECT_EQ(next(*power_stream), "");
}

TEST_F(Streams, UnknownPowerSendsNoEvent) {
  const auto power_stream = listen("/gpu/stream_power?gpu_ids=0");
  publish_power("GPU-0", Missing{MissingReason::timed_out, ""});
  EXPECT_EQ(next(*power_stream), "");
}

TEST_F(Streams, NewReadingWakesListener) {
  const auto power_stream = listen("/gpu/stream_power?gpu_ids=0");
  int woken = 0;
  power_stream->set_on_more([&] { ++woken; });
  publish_power("GPU-0", std::int64_t{1});
  EXPECT_EQ(woken, 1);
}

TEST_F(Streams, DisconnectStopsSampling) {
  auto power_stream = listen("/gpu/stream_power");
  auto of_cpus = listen("/cpu/stream_power");
  EXPECT_EQ(cpus_.subscriber_count(), 1U);
  answers_.clear();
  power_stream = nullptr;
  of_cpus = nullptr;
  EXPECT_TRUE(gpus_.listeners.empty());
  EXPECT_EQ(cpus_.subscriber_count(), 0U);
}

// Zeus's client reconnects without delay after an end.
TEST_F(Streams, NeverEndAsBodiesDo) {
  EXPECT_FALSE(listen("/gpu/stream_power")->can_end());
  EXPECT_FALSE(listen("/cpu/stream_power")->can_end());
  EXPECT_FALSE(listen("/gpu/stream_power")->is_over());
}

TEST_F(Streams, CpuEventHasNullWithoutDram) {
  const auto power_stream = listen("/cpu/stream_power");
  loop_.advance(milliseconds(1));
  settle();
  EXPECT_EQ(next(*power_stream), "");
  cpu::RaplTree::set(tree_.package(0), 1'000'500);
  loop_.advance(cpu::CpuEnergyMonitor::kPeriod);
  settle();
  EXPECT_THAT(next(*power_stream),
              ::testing::MatchesRegex("data: \\{\"timestamp_ms\":[0-9]+,\"cpu_id\":0,"
                                      "\"cpu_mw\":[1-9][0-9]*,\"dram_mw\":0\\}\n\n"));
  EXPECT_THAT(next(*power_stream), testing::HasSubstr(R"("cpu_id":1,"cpu_mw":0,"dram_mw":null})"));
  EXPECT_EQ(next(*power_stream), "");
}

TEST_F(Streams, CpuStreamContainsOnlyRequestedCpu) {
  const auto power_stream = listen("/cpu/stream_power?cpu_ids=1");
  for (int i = 0; i < 3; ++i) {
    loop_.advance(cpu::CpuEnergyMonitor::kPeriod);
    settle();
  }
  EXPECT_THAT(next(*power_stream), testing::HasSubstr(R"("cpu_id":1)"));
  EXPECT_EQ(next(*power_stream), "");
}

}  // namespace
}  // namespace gpuyard::zeus
