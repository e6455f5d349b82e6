#include "sim/scenario.h"

#include <gtest/gtest.h>

namespace gpuyard::sim {
namespace {

using namespace std::chrono_literals;

Scenario good(std::string_view text, std::optional<int> gpus = {}) {
  auto scenario = parse_scenario(text, "s.toml", gpus);
  EXPECT_TRUE(scenario) << scenario.error().message;
  return scenario ? *std::move(scenario) : Scenario{};
}

std::string refusal(std::string_view text) {
  const auto scenario = parse_scenario(text, "s.toml");
  EXPECT_FALSE(scenario) << text;
  return scenario ? "" : scenario.error().message;
}

TEST(Scenario, AnEmptyFileIsTheUsualWorld) {
  const Scenario scenario = good("");
  EXPECT_EQ(scenario.gpus, 8U);
  EXPECT_EQ(scenario.world.model, "h100");
  EXPECT_TRUE(scenario.timeline.empty());
}

TEST(Scenario, FileDescribesWholeWorld) {
  const Scenario scenario = good(R"(
[world]
model = "h100:2,t4"
setters = "everyone"
ambient = 22.5
speed = 60
warm_up = "10s"
workload = "steady:0.5"
driver_version = "550.54.15"
process_entries = 32
missing = ["nvmlDeviceGetFieldValues", "nvmlDeviceGetFanSpeed_v2"]
)");
  EXPECT_EQ(scenario.gpus, 3U);
  EXPECT_EQ(scenario.world.setters, SetterAccess::everyone);
  EXPECT_EQ(scenario.ambient, 22.5);
  EXPECT_EQ(scenario.world.speed, 60.0);
  EXPECT_EQ(scenario.warm_up, 10s);
  EXPECT_EQ(scenario.world.load, *parse_workload("steady:0.5"));
  EXPECT_EQ(scenario.world.driver_version, "550.54.15");
  EXPECT_EQ(scenario.world.process_entry_bytes, 32U);
  EXPECT_EQ(scenario.world.missing.size(), 2U);
}

TEST(Scenario, GivesEachGpuItsWorkload) {
  const Scenario scenario = good(R"(
world.gpus = 4
[[gpu]]
gpu = [0, 2]
workload = "leak:0.6:10G:64M"
[[gpu]]
gpu = 3
workload = "training:0.9:40G:30s"
)");
  ASSERT_EQ(scenario.loads.size(), 3U);
  EXPECT_EQ(scenario.loads[0].workload_kind, WorkloadKind::leak);
  EXPECT_EQ(scenario.loads[0].leaked_bytes_per_s, std::uint64_t{64} << 20);
  EXPECT_EQ(scenario.loads[1].gpu, 2U);
  EXPECT_EQ(scenario.loads[2].period_ms, 30'000U);
}

TEST(Scenario, TimelineIsSortedByTimeThenFileOrder) {
  const Scenario scenario = good(R"(
[[at]]
time = "1m"
gpu = 1
lost = true
xid = 79
[[at]]
time = 10
gpu = "all"
call = "power_usage"
code = 999
times = 3
[[at]]
time = "1m"
gpu = [2, 3]
workload = "idle"
)");
  const auto& timeline = scenario.timeline;
  ASSERT_EQ(timeline.size(), 5U);
  EXPECT_EQ(timeline[0].at, 10s);
  EXPECT_EQ(timeline[0].command.gpu, static_cast<std::uint32_t>(kEveryGpu));
  EXPECT_EQ(timeline[0].command.fault.calls[0].times, 3U);
  EXPECT_EQ(timeline[1].command.verb, Verb::inject);
  EXPECT_EQ(timeline[1].command.fault.lost, 1U);
  EXPECT_EQ(timeline[2].command.verb, Verb::raise_event);
  EXPECT_EQ(timeline[2].command.count, 79U);
  EXPECT_EQ(timeline[3].command.gpu, 2U);
  EXPECT_EQ(timeline[4].command.gpu, 3U);
}

TEST(Scenario, UnplugsPlugsAndReloads) {
  const Scenario scenario = good(R"(
world.gpus = 2
[[at]]
time = 1
gpu = 0
unplug = true
[[at]]
time = 2
plug = 0
index = 1
[[at]]
time = 3
driver = "reload"
away = "5s"
driver_version = "560.1"
)");
  ASSERT_EQ(scenario.timeline.size(), 3U);
  const World world = make_world(*find_model("h100"), 2, {});
  EXPECT_STREQ(scenario.timeline[1].command.text, world.gpus[0].identity.uuid);
  EXPECT_EQ(scenario.timeline[1].command.gpu, 1U);
  EXPECT_EQ(scenario.timeline[2].command.verb, Verb::reload_driver);
  EXPECT_EQ(scenario.timeline[2].command.load, 5.0);
  EXPECT_STREQ(scenario.timeline[2].command.text, "560.1");
}

TEST(Scenario, CallerOverridesNumberOfGpus) {
  EXPECT_EQ(good("", 3).gpus, 3U);
  EXPECT_EQ(good("world.gpus = 5", 3).gpus, 3U);
  EXPECT_FALSE(parse_scenario("world.model = \"h100:2,t4\"", "s.toml", 5));
  EXPECT_FALSE(parse_scenario("[[gpu]]\ngpu = 5\nworkload = \"idle\"", "s.toml", 3));
}

struct Wrong {
  const char* text;
  const char* because;
};

class WrongScenario : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongScenario, IsRefusedWithLineAndReason) {
  const std::string message = refusal(GetParam().text);
  EXPECT_TRUE(message.starts_with("s.toml:")) << message;
  EXPECT_NE(message.find(GetParam().because), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(
    Each, WrongScenario,
    ::testing::Values(
        Wrong{"[world]\nmodle = 1",
              "s.toml:2: [world] has an unknown key \"modle\"; known keys: ambient, "},
        Wrong{"[wrold]",
              "s.toml:1: a scenario has an unknown key \"wrold\"; known keys: at, gpu, world"},
        Wrong{"[world]\n\ngpus = 65", "s.toml:3: [world] gpus: must be an integer from 1 to 64"},
        Wrong{"world.gpus = \"4\"", "gpus: must be an integer"},
        Wrong{"world.model = \"h9000\"",
              "model: unknown GPU model \"h9000\"; available models: a100"},
        Wrong{"world.model = 5", "model: must be a string"},
        Wrong{"world.setters = \"me\"", "\"me\" is not one of owner, everyone"},
        Wrong{"world.ambient = 100", "ambient: must be a number from -20 to 60"},
        Wrong{"world.speed = 0", "speed: must be a number from 0.01 to 1000"},
        Wrong{"world.stepped = false", "can only be true"},
        Wrong{"[world]\nstepped = true\nspeed = 2", "not allowed in a stepped world"},
        Wrong{"world.warm_up = \"2h\"", "must be at most 10m"},
        Wrong{"world.workload = \"heavy\"", "expected a workload: idle, steady"},
        Wrong{"world.driver_version = \"new\"", "not a driver version such as"},
        Wrong{"world.process_entries = 20", "must be 16, 24 or 32 bytes"},
        Wrong{"world.missing = \"nvmlInit\"", "missing: must be a list of strings"},
        Wrong{"world = 3", "world: must be a table: [world]"},
        Wrong{"gpu = 3", "gpu: must be tables: [[gpu]]"},
        Wrong{"at = [1]", "at: must be tables: [[at]]"},
        Wrong{"[[gpu]]\nworkload = \"idle\"", "s.toml:1: [[gpu]] needs gpu = N"},
        Wrong{"[[gpu]]\ngpu = 1", "needs workload"},
        Wrong{"[[gpu]]\ngpu = 8\nworkload = \"idle\"",
              "s.toml:2: [[gpu]] gpu: must be an index from 0"},
        Wrong{"[[gpu]]\ngpu = []\nworkload = \"idle\"", "must be an index from 0 to 7, a list"},
        Wrong{"[[gpu]]\ngpu = \"every\"\nworkload = \"idle\"", "or \"all\""},
        Wrong{"[[at]]\ngpu = 1\nlost = true", "needs time"},
        Wrong{"[[at]]\ntime = \"5ms\"\ngpu = 1\nlost = true", "must be a multiple of 10 ms"},
        Wrong{"[[at]]\ntime = \"soon\"\ngpu = 1\nlost = true",
              "\"soon\" is not a duration such as"},
        Wrong{"[[at]]\ntime = -1\ngpu = 1\nlost = true", "\"-1\" is not a duration"},
        Wrong{"[[at]]\ntime = 1\nlost = true", "needs gpu = N"},
        Wrong{"[[at]]\ntime = 1", "has no event"},
        Wrong{"[[at]]\ntime = 1\ngpu = 1", "names a GPU but no event"},
        Wrong{"[[at]]\ntime = 1\ngpu = 1\nlots = true",
              "has an unknown key \"lots\"; known keys: away, call"},
        Wrong{"[[at]]\ntime = 1\ngpu = 1\nlost = 1", "lost: must be true or false"},
        Wrong{"[[at]]\ntime = 1\ngpu = 1\ncode = 3", "needs call = "},
        Wrong{"[[at]]\ntime = 1\ngpu = 1\ncall = \"temperature\"", "missing fault: code"},
        Wrong{"[[at]]\ntime = 1\ngpu = 1\ncall = \"temp\"\ncode = 3",
              "unknown \"temp\"; use one of"},
        Wrong{"[[at]]\ntime = 1\ngpu = 1\ncall = \"any\"\ncode = 31",
              "31 is not an NVML return code"},
        Wrong{"[[at]]\ntime = 1\ngpu = 1\nxid = 1000", "xid: must be an integer from 0 to 999"},
        Wrong{"[[at]]\ntime = 1\ngpu = 1\nfan = 0", "NVIDIA H100 80GB HBM3 has no fans"},
        Wrong{"[[at]]\ntime = 1\ngpu = 1\npcie_width = 3", "1, 2, 4, 8 or 16 lanes"},
        Wrong{"[[at]]\ntime = 1\ngpu = 1\nrow_remap = \"x\"",
              "\"x\" is not one of pending, failed"},
        Wrong{"[[at]]\ntime = 1\ngpu = 1\nrecovery_action = \"none\"",
              "\"none\" is not one of reset, reboot, drain_p2p, drain_and_reset"},
        Wrong{"[[at]]\ntime = 1\ngpu = 1\nheat = 101", "heat: must be a number from 0 to 100"},
        Wrong{"[[at]]\ntime = 1\ngpu = 1\necc_corrected = 1\necc_location = \"disk\"",
              "unknown memory location \"disk\""},
        Wrong{"[[at]]\ntime = 1\nindex = 1", "only allowed with plug = N"},
        Wrong{"[[at]]\ntime = 1\nplug = 9", "plug: must be an integer from 0 to 7"},
        Wrong{"[[at]]\ntime = 1\naway = \"1s\"\ngpu = 1\nlost = true", "only allowed with driver"},
        Wrong{"[[at]]\ntime = 1\ndriver = \"restart\"", "is not one of reload, unload, load"},
        Wrong{"[world\n", "s.toml:"}));

TEST(Scenario, SeveralErrorsReportFirstLine) {
  EXPECT_NE(refusal("[world]\ngpus = 0\nmodel = 3\ncolour = 1").find("s.toml:2:"),
            std::string::npos);
  EXPECT_NE(refusal("[world]\ncolour = 1\ngpus = 0").find("s.toml:2:"), std::string::npos);
}

}  // namespace
}  // namespace gpuyard::sim
