// Setters, resets and the world server's log of both.
#include <gmock/gmock.h>

#include <optional>
#include <tuple>

#include "sim/world_server_for_tests.h"

namespace gpuyard::sim {
namespace {

constexpr Command kDriverReset{.verb = Verb::reset, .count = 1};

class OpenWorldServerTest : public WorldServerTest {
 protected:
  OpenWorldServerTest() : WorldServerTest(SetterAccess::everyone) {}
};

class RootsWorldServerTest : public WorldServerTest {
 protected:
  RootsWorldServerTest() : WorldServerTest(SetterAccess::root) {}
};

class ClosedWorldServerTest : public WorldServerTest {
 protected:
  ClosedWorldServerTest() : WorldServerTest(SetterAccess::nobody) {}
};

TEST_F(WorldServerTest, StrangerCannotWriteSettings) {
  EXPECT_EQ(set(WriteKind::power_limit, 350'000, kStranger), nvml::kNoPermission);
  EXPECT_EQ(reader_.record(0)->power_limit_mw, 700'000U);
}

TEST_F(OpenWorldServerTest, OpenWorldLetsStrangerWriteSettings) {
  EXPECT_EQ(set(WriteKind::power_limit, 350'000, kStranger), nvml::kSuccess);
  const Reply reply = execute({.verb = Verb::clear_faults}, kStranger);
  EXPECT_EQ(errc_from_number(reply.errc), Errc::denied);
  EXPECT_FALSE(server_.is_stopping());
}

TEST_F(RootsWorldServerTest, NonRootOwnerCannotWriteSettings) {
  constexpr Peer kUser{.pid = 33, .uid = 1000, .is_owner = true};
  EXPECT_EQ(set(WriteKind::power_limit, 350'000, kUser), nvml::kNoPermission);
  EXPECT_EQ(set(WriteKind::power_limit, 350'000, kOwner), nvml::kSuccess);
  EXPECT_EQ(execute({.verb = Verb::reset}, kUser).failed, 0U);  // as a test
  EXPECT_EQ(errc_from_number(execute(kDriverReset, kUser).errc), Errc::denied);
}

TEST_F(ClosedWorldServerTest, WritesAreDeniedButOwnerCommandsWork) {
  EXPECT_EQ(set(WriteKind::power_limit, 350'000), nvml::kNoPermission);
  EXPECT_EQ(set(WriteKind::gpu_locked_clocks_reset, 0), nvml::kNoPermission);
  EXPECT_EQ(execute({.verb = Verb::clear_faults}).failed, 0U);
  EXPECT_EQ(errc_from_number(execute(kDriverReset).errc), Errc::denied);
  EXPECT_EQ(reader_.record(0)->power_limit_mw, 700'000U);
  EXPECT_EQ(reader_.driver()->setters, SetterAccess::nobody);
}

// A logged write: setting, place, code.
using LoggedWrite = std::tuple<WriteKind, std::uint32_t, std::int32_t>;

std::vector<LoggedWrite> logged(const WorldReader& reader) {
  std::vector<LoggedWrite> out;
  for (const WriteRecord& write : reader.writes()) {
    out.emplace_back(write.write.kind, write.write.gpu, write.nvml_code);
  }
  return out;
}

TEST_F(WorldServerTest, OpenDriverBlocksResetAndAttemptIsLogged) {
  set(WriteKind::power_limit, 350'000);
  {
    const auto client = *WorldReader::open(directory_.path(), OpenMode::driver);
    const Reply refused = execute(kDriverReset);
    EXPECT_EQ(errc_from_number(refused.errc), Errc::conflict);
    EXPECT_THAT(refused.message, testing::HasSubstr("a program has the driver open"));
    EXPECT_EQ(reader_.record(0)->power_limit_mw, 350'000U);
  }
  EXPECT_EQ(execute(kDriverReset).failed, 0U);
  EXPECT_EQ(reader_.record(0)->power_limit_mw, 700'000U);
  EXPECT_THAT(logged(reader_),
              testing::ElementsAre(LoggedWrite(WriteKind::power_limit, 0, 0),
                                   LoggedWrite(WriteKind::reset, 0, nvml::kInUse),
                                   LoggedWrite(WriteKind::reset, 0, nvml::kSuccess)));
  EXPECT_EQ(reader_.writes()[1].peer_pid, 11U);
}

TEST_F(WorldServerTest, ProcessOrMissingDriverBlocksDriverReset) {
  ASSERT_EQ(synthetic(0, 1).failed, 0U);
  EXPECT_EQ(errc_from_number(execute(kDriverReset).errc), Errc::conflict);
  ASSERT_EQ(execute({.verb = Verb::unload_driver}).failed, 0U);
  EXPECT_EQ(errc_from_number(execute(kDriverReset).errc), Errc::unavailable);
}

TEST_F(WorldServerTest, OneRemainingClientBlocksDriverReset) {
  auto first = WorldReader::open(directory_.path(), OpenMode::driver);
  std::optional<WorldReader> second(*WorldReader::open(directory_.path(), OpenMode::driver));
  second.reset();
  EXPECT_EQ(errc_from_number(execute(kDriverReset).errc), Errc::conflict);
  EXPECT_EQ(execute({.verb = Verb::reset}).failed, 0U);  // a reset by the test
}

TEST_F(WorldServerTest, ResetsAndDriverReloadsAreLoggedInOrder) {
  set(WriteKind::power_limit, 350'000, kOwner, 1);
  set(WriteKind::ecc_mode, 0, kOwner, 1);
  ASSERT_EQ(execute({.verb = Verb::reset, .gpu = 1}).failed, 0U);
  EXPECT_EQ(reader_.record(1)->power_limit_mw, 700'000U);
  EXPECT_EQ(reader_.record(1)->ecc_mode, 0U);
  set(WriteKind::gpu_locked_clocks_reset, 0, kOwner, 2);
  ASSERT_EQ(execute({.verb = Verb::reload_driver}).failed, 0U);
  set(WriteKind::power_limit, 300'000);
  EXPECT_THAT(logged(reader_),
              testing::ElementsAre(LoggedWrite(WriteKind::power_limit, 1, 0),
                                   LoggedWrite(WriteKind::ecc_mode, 1, 0),
                                   LoggedWrite(WriteKind::reset, 1, 0),
                                   LoggedWrite(WriteKind::gpu_locked_clocks_reset, 2, 0),
                                   LoggedWrite(WriteKind::driver_unloaded, kEveryGpu, 0),
                                   LoggedWrite(WriteKind::driver_loaded, kEveryGpu, 0),
                                   LoggedWrite(WriteKind::power_limit, 0, 0)));
  EXPECT_EQ(reader_.writes()[5].write.values[0], 2U);  // the session
}

TEST_F(WorldServerTest, DelayedDriverReloadIsLoggedOnLoad) {
  Command away{.verb = Verb::reload_driver};
  away.load = 0.02;
  ASSERT_EQ(execute(away).failed, 0U);
  EXPECT_EQ(set(WriteKind::power_limit, 350'000), nvml::kDriverNotLoaded);
  server_.advance(2);
  EXPECT_THAT(logged(reader_),
              testing::ElementsAre(LoggedWrite(WriteKind::driver_unloaded, kEveryGpu, 0),
                                   LoggedWrite(WriteKind::power_limit, 0, nvml::kDriverNotLoaded),
                                   LoggedWrite(WriteKind::driver_loaded, kEveryGpu, 0)));
  EXPECT_EQ(reader_.writes()[0].peer_pid, 11U);
  EXPECT_EQ(reader_.writes()[2].peer_pid, static_cast<std::uint32_t>(::getpid()));
}

TEST_F(WorldServerTest, SetterWithResetKindIsRefused) {
  for (const WriteKind setting :
       {WriteKind::reset, WriteKind::driver_unloaded, WriteKind::driver_loaded}) {
    EXPECT_EQ(set(setting, 7), nvml::kInvalidArgument);
  }
  EXPECT_EQ(reader_.record(0)->power_limit_mw, 700'000U);
}

TEST_F(WorldServerTest, AppliedAndRefusedWritesAreLoggedInOrder) {
  set(WriteKind::power_limit, 350'000);
  set(WriteKind::power_limit, 1, kOwner, 2);
  set(WriteKind::persistence_mode, 1, kStranger, 1);
  set(WriteKind::power_limit, 350'000, kOwner, 77);
  const auto writes = reader_.writes();
  ASSERT_EQ(writes.size(), 4U);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(writes[i].sequence, i + 1);
  EXPECT_EQ(writes[0].nvml_code, nvml::kSuccess);
  EXPECT_EQ(writes[0].write.values[0], 350'000U);
  EXPECT_EQ(writes[1].nvml_code, nvml::kInvalidArgument);
  EXPECT_EQ(writes[1].write.gpu, 2U);
  EXPECT_EQ(writes[2].nvml_code, nvml::kNoPermission);
  EXPECT_EQ(writes[2].write.kind, WriteKind::persistence_mode);
  EXPECT_EQ(writes[2].peer_pid, 22U);
  EXPECT_EQ(writes[2].peer_uid, 1234U);
  EXPECT_EQ(writes[3].nvml_code, nvml::kInvalidArgument);
}

TEST_F(WorldServerTest, FullWriteLogDropsAndCountsOldest) {
  constexpr std::uint64_t kMade = kMaxWrites + 100;
  for (std::uint64_t i = 0; i < kMade; ++i) set(WriteKind::power_limit, i);
  const auto writes = reader_.writes();
  ASSERT_EQ(writes.size(), kMaxWrites);
  EXPECT_EQ(writes.front().write.values[0], kMade - kMaxWrites);
  EXPECT_EQ(writes.back().write.values[0], kMade - 1);
  const auto status = world_status(directory_.path());
  EXPECT_EQ(status->writes_dropped, 100U);
  EXPECT_EQ(status->writes.size(), kMaxWrites);
  EXPECT_GT(status->writes.front().at_boot_ms, 0U);
}

}  // namespace
}  // namespace gpuyard::sim
