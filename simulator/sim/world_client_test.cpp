#include "sim/world_client.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/clock.h"
#include "base/json_writer.h"
#include "base/spawn.h"
#include "sim/world_client_for_tests.h"
#include "sim/world_reader.h"
#include "sim/world_server_main.h"

namespace gpuyard::sim {
namespace {

using namespace std::chrono_literals;

bool is_gone(pid_t pid) {
  return ::kill(pid, 0) != 0;
}

TEST_F(WorldClientTest, AStartedWorldIsPublishedAndMovesOn) {
  const auto world = start();
  ASSERT_TRUE(world) << world.error().message;
  const auto status = world_status(directory());
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(status->keeper_pid, world->server_pid());
  ASSERT_EQ(status->gpus.size(), 4U);
  EXPECT_EQ(status->gpus[3].index, 3);
  EXPECT_EQ(status->gpus[3].name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(status->gpus[3].pci_address, "00000000:1A:00.0");
  EXPECT_TRUE(happens_within(1s, [&] {
    return world_status(directory())->gpus[0].energy_joules > status->gpus[0].energy_joules;
  }));
}

TEST_F(WorldClientTest, StatusIsARecordThatPrintsAsJson) {
  const auto world = start();
  const std::string text = json::to_json(*world_status(directory()));
  EXPECT_TRUE(text.starts_with("{\"schema\":1,\"directory\":\"")) << text;
  EXPECT_NE(text.find("\"gpus\":[{\"index\":0,\"model\":\"h100\",\"uuid\":\"GPU-"),
            std::string::npos)
      << text;
}

TEST_F(WorldClientTest, IndependentServerRunsUntilStopped) {
  pid_t server_pid = 0;
  {
    const auto world = start(WorldLifetime::independent);
    ASSERT_TRUE(world) << world.error().message;
    server_pid = world->server_pid();
  }
  EXPECT_TRUE(world_status(directory()));
  EXPECT_TRUE(stop_world(directory()));
  EXPECT_TRUE(is_gone(server_pid));
  EXPECT_EQ(world_status(directory()).error().code, Errc::not_found);
  EXPECT_FALSE(std::filesystem::exists(directory() + "/keeper.sock"));
}

TEST_F(WorldClientTest, ServerEndsWithItsRunningWorld) {
  pid_t server_pid = 0;
  {
    const auto world = start();
    server_pid = world->server_pid();
  }
  EXPECT_TRUE(is_gone(server_pid));
  EXPECT_EQ(world_status(directory()).error().code, Errc::not_found);
}

TEST_F(WorldClientTest, SecondServerInDirectoryConflictsNamingFirstPid) {
  const auto first = start();
  ASSERT_TRUE(first);
  const auto second = start();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::conflict);
  EXPECT_NE(second.error().message.find(std::to_string(first->server_pid())), std::string::npos)
      << second.error().message;
  EXPECT_TRUE(world_status(directory()));
}

TEST_F(WorldClientTest, NewServerTakesOverFilesOfKilledServer) {
  const auto first = start();
  ::kill(first->server_pid(), SIGKILL);
  ASSERT_TRUE(happens_within(1s, [&] { return start().ok(); }));
  const auto second = start();
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(world_status(directory())->keeper_pid, second->server_pid());
}

TEST_F(WorldClientTest, KilledServerMakesWorldUnavailable) {
  const auto world = start();
  const auto reader = WorldReader::open(directory());
  ::kill(world->server_pid(), SIGKILL);
  EXPECT_TRUE(happens_within(2500ms, [&] { return !reader->is_alive(); }));
  EXPECT_FALSE(reader->record(0));
  EXPECT_EQ(world_status(directory()).error().code, Errc::unavailable);
}

TEST_F(WorldClientTest, SuspendedServerIsUnavailableAndCanBeStopped) {
  const auto world = start(WorldLifetime::independent);
  ::kill(world->server_pid(), SIGSTOP);
  EXPECT_EQ(set_load(directory(), 0, {}).error().code, Errc::unavailable);
  const TimePoint before = BootClock::now();
  EXPECT_TRUE(stop_world(directory()));
  EXPECT_LT(to_milliseconds(BootClock::now() - before), 3000);
  EXPECT_TRUE(is_gone(world->server_pid()));
  EXPECT_EQ(world_status(directory()).error().code, Errc::not_found);
}

// A process that creates a world and is then killed.
class KilledCreator {
 public:
  explicit KilledCreator(std::vector<std::string> arguments) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const UniqueFd reading(ends[0]);
    UniqueFd writing(ends[1]);
    // Its stdout is /dev/null, so it writes the world server's pid to this descriptor.
    arguments.insert(arguments.begin(), "create");
    creator_ = *spawn(
        {.program = SIM_KEEPER_PROGRAM, .arguments = arguments, .passed_fds = {writing.get()}});
    writing.reset();
    std::array<char, 32> text{};
    EXPECT_GT(::read(reading.get(), text.data(), text.size() - 1), 0);
    keeper_ = static_cast<pid_t>(std::strtol(text.data(), nullptr, 10));
  }
  void kill() const {
    ::kill(creator_, SIGKILL);
    ::waitpid(creator_, nullptr, 0);
  }
  pid_t keeper() const { return keeper_; }

 private:
  pid_t creator_ = 0;
  pid_t keeper_ = 0;
};

TEST_F(WorldClientTest, KilledCreatorEndsServerWithinOneSecond) {
  const KilledCreator creator({directory()});
  ASSERT_GT(creator.keeper(), 0);
  ASSERT_TRUE(world_status(directory()));
  creator.kill();
  // The world server is gone, or a zombie that its new parent has not reaped yet: its world is
  // removed either way.
  EXPECT_TRUE(happens_within(1s, [&] { return !world_status(directory()); }));
  EXPECT_EQ(world_status(directory()).error().code, Errc::not_found);
  EXPECT_TRUE(std::filesystem::exists(directory()));
}

TEST_F(WorldClientTest, KilledCreatorsPrivateDirectoryIsRemoved) {
  const KilledCreator creator({directory(), "private"});
  ASSERT_TRUE(world_status(directory()));
  creator.kill();
  EXPECT_TRUE(happens_within(1s, [&] { return !std::filesystem::exists(directory()); }));
}

TEST_F(WorldClientTest, PrivateDirectoryWithForeignFileIsKept) {
  auto private_options = options();
  private_options.private_directory = true;
  {
    const auto world = start_world(private_options, WorldLifetime::with_creator);
    ASSERT_TRUE(world) << world.error().message;
    std::ofstream(directory() + "/thesis") << "x";
  }
  EXPECT_TRUE(std::filesystem::exists(directory() + "/thesis"));
}

TEST_F(WorldClientTest, ServerEndsAfterDirectoryRemoval) {
  const auto world = start();
  std::filesystem::remove_all(directory());
  EXPECT_TRUE(happens_within(
      3s, [&] { return ::waitpid(world->server_pid(), nullptr, WNOHANG) == world->server_pid(); }));
}

TEST_F(WorldClientTest, TerminationRemovesTheWorldsFiles) {
  const auto world = start();
  ::kill(world->server_pid(), SIGTERM);
  EXPECT_TRUE(happens_within(1s, [&] { return !std::filesystem::exists(directory() + "/state"); }));
}

TEST_F(WorldClientTest, InvalidModelGpuCountOrProgramIsRefused) {
  auto wrong = options();
  wrong.model = "h9000";
  EXPECT_EQ(start_world(wrong, WorldLifetime::with_creator).error().code, Errc::invalid);
  wrong = options();
  wrong.gpus = 65;
  EXPECT_EQ(start_world(wrong, WorldLifetime::with_creator).error().code, Errc::invalid);
  wrong.gpus = 0;
  EXPECT_EQ(start_world(wrong, WorldLifetime::with_creator).error().code, Errc::invalid);
  wrong = options();
  wrong.program = "/bin/true";
  EXPECT_EQ(start_world(wrong, WorldLifetime::with_creator).error().code, Errc::internal);
  wrong.program = "/no/such/program";
  EXPECT_EQ(start_world(wrong, WorldLifetime::with_creator).error().code, Errc::not_found);
}

TEST(WorldServerArguments, SurviveTheCommandLine) {
  const WorldServerOptions options{.world = {.directory = "/a b",
                                             .model = "h100",
                                             .gpus = 3,
                                             .setters = SetterAccess::nobody,
                                             .load = {WorkloadKind::steady, 0.25, 1 << 20},
                                             .driver_version = "550.1",
                                             .process_entry_bytes = 32,
                                             .missing = {"nvmlInit", "nvmlShutdown"},
                                             .speed = 2.5,
                                             .scenario = "/a c.toml",
                                             .private_directory = true},
                                   .creator = 42};
  const auto parsed = parse_world_server_arguments(world_server_arguments(options));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->world.directory, "/a b");
  EXPECT_EQ(parsed->world.gpus, 3);
  EXPECT_EQ(parsed->world.setters, SetterAccess::nobody);
  EXPECT_EQ(parsed->world.load, options.world.load);
  EXPECT_EQ(parsed->creator, 42);
  EXPECT_EQ(parsed->world.driver_version, "550.1");
  EXPECT_EQ(parsed->world.process_entry_bytes, 32U);
  EXPECT_EQ(parsed->world.missing, options.world.missing);
  EXPECT_EQ(parsed->world.speed, 2.5);
  EXPECT_FALSE(parsed->world.stepped);
  EXPECT_EQ(parsed->world.scenario, "/a c.toml");
  EXPECT_TRUE(parsed->world.private_directory);
  for (const auto& wrong : {std::vector<std::string>{"--gpus"},
                            {"--gpus", "3x"},
                            {"--fleet", "3"},
                            {"--setters", "somebody"},
                            {"--load", "heavy"}}) {
    EXPECT_FALSE(parse_world_server_arguments(wrong));
  }
}

}  // namespace
}  // namespace gpuyard::sim
