#include "daemon/serve.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"
#include "core/lease/lease_manager.h"

namespace gpuyard::daemon {
namespace {

class StateDirectory : public ::testing::Test {
 protected:
  const ScratchDirectory directory_;
};

config::Config valid() {
  config::Config config;
  config.server.socket = "/tmp/gpuyard.sock";
  return config;
}

TEST(Check, TheDefaultsAreValid) {
  EXPECT_TRUE(check_config(valid()).ok());
}

TEST(Check, InvalidAddressErrorNamesKey) {
  auto config = valid();
  config.server.listen = {"localhost"};
  const auto result = check_config(config);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Errc::invalid);
  EXPECT_EQ(result.error().message.find("server.listen"), 0U);
}

TEST(Check, SocketPathAmongTcpAddressesIsInvalid) {
  auto config = valid();
  config.server.listen = {"/tmp/x.sock"};
  EXPECT_NE(check_config(config).error().cause.find("server.socket"), std::string::npos);
}

TEST(Check, TooLongSocketPathIsRefused) {
  auto config = valid();
  config.server.socket = "/" + std::string(200, 'x');
  EXPECT_EQ(check_config(config).error().message.find("server.socket"), 0U);
}

TEST(Check, WhereZeusListensIsCheckedAsWell) {
  auto config = valid();
  config.zeus.socket = "/tmp/zeusd.sock";
  config.zeus.listen = {"127.0.0.1:0"};
  EXPECT_TRUE(check_config(config).ok());
  config.zeus.socket = "/" + std::string(200, 'x');
  EXPECT_EQ(check_config(config).error().message.find("zeus.socket"), 0U);
  config.zeus.socket = config.server.socket;
  EXPECT_EQ(check_config(config).error().message.find("zeus.socket"), 0U);
  config.zeus.socket = "";
  config.zeus.listen = {"/tmp/x.sock"};
  EXPECT_NE(check_config(config).error().cause.find("zeus.socket"), std::string::npos);
  config.zeus.listen = {"localhost:1"};
  EXPECT_EQ(check_config(config).error().message.find("zeus.listen"), 0U);
}

TEST(Check, AMetricPrefixMustStartAName) {
  auto config = valid();
  config.metrics.prefix = "9lives";
  EXPECT_EQ(check_config(config).error().message.find("metrics.prefix"), 0U);
}

TEST(Check, UnhealthyBelowDegradedIsRefused) {
  auto config = valid();
  config.health.common = {85, 75};
  EXPECT_EQ(check_config(config).error().message.find("health: "), 0U);
  config = valid();
  config.health.of_gpu["3"] = {85, 75};
  EXPECT_EQ(check_config(config).error().message.find("health.temperatures_of 3: "), 0U);
}

TEST_F(StateDirectory, IsCreatedWithItsParents) {
  EXPECT_TRUE(lock_state(directory_.in("a/b")).ok());
  EXPECT_TRUE(std::filesystem::is_directory(directory_.in("a/b")));
}

TEST_F(StateDirectory, SecondDaemonConflictsNamingHolderPid) {
  const auto first = lock_state(directory_.path());
  ASSERT_TRUE(first.ok());
  const auto second = lock_state(directory_.path());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Errc::conflict);
  EXPECT_NE(second.error().message.find("PID " + std::to_string(::getpid())), std::string::npos);
}

TEST_F(StateDirectory, LockIsReleasedWithDescriptor) {
  {
    const auto first = lock_state(directory_.path());
  }
  EXPECT_TRUE(lock_state(directory_.path()).ok());
}

// The fallback in /tmp of a user who does not exist.
class FallbackDirectory : public ::testing::Test {
 protected:
  FallbackDirectory() { environment_.uid = 4'000'000'000U - static_cast<unsigned>(::getpid()); }
  ~FallbackDirectory() override { std::filesystem::remove_all(path()); }

  std::string path() const { return fallback_directory(environment_); }

  Environment environment_;
};

unsigned mode_of(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777U : 0;
}

TEST_F(FallbackDirectory, IsMadeForItsUserAlone) {
  ASSERT_TRUE(make_daemon_directory(path(), 0755, environment_).ok());
  EXPECT_EQ(mode_of(path()), 0700U);
  ASSERT_TRUE(make_daemon_directory(path() + "/state", 0700, environment_).ok());
  EXPECT_EQ(mode_of(path() + "/state"), 0700U);
}

TEST_F(FallbackDirectory, SymlinkedPathIsDeniedWithAdvice) {
  std::filesystem::create_directory_symlink("/tmp", path());
  const auto made = make_daemon_directory(path() + "/state", 0700, environment_);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, Errc::denied);
  for (const char* advice : {"XDG_RUNTIME_DIR", "--socket", "--state"}) {
    EXPECT_NE(made.error().message.find(advice), std::string::npos) << made.error().message;
  }
}

TEST_F(StateDirectory, StrictUmaskKeepsSocketDirectoryAccessible) {
  const mode_t before = ::umask(077);
  const auto made = make_daemon_directory(directory_.in("run"), 0755, Environment{});
  ::umask(before);
  EXPECT_TRUE(made.ok());
  EXPECT_EQ(mode_of(directory_.in("run")), 0755U);
}

TEST_F(StateDirectory, FileInsteadOfDirectoryIsError) {
  EXPECT_FALSE(lock_state("/dev/null").ok());
}

}  // namespace

namespace {

TEST(DescriptorBudget, ConnectionsAndClaimsLeaveDescriptorsForTheRest) {
  config::Config config;
  config.server.listen = {"127.0.0.1:9410", "[::1]:9410"};
  for (const rlim_t descriptors : {1024U, 4096U, 20'000U}) {
    const auto limits = limits_of(config, descriptors);
    const std::size_t listener_count = config.server.listen.size() + 2;
    const std::size_t taken = listener_count * (limits.connections + limits.reserved_slots);
    EXPECT_LE(taken + 2 * max_waiting_claims(descriptors), descriptors * 3 / 4) << descriptors;
    EXPECT_LT(limits.streams, limits.connections);
  }
}

TEST(DescriptorBudget, UsersTakeHalfOfTheFewestDescriptors) {
  for (const std::size_t listeners : {1U, 4U, 12U}) {
    config::Config config;
    config.server.listen.assign(listeners, "127.0.0.1:0");
    const auto limits = limits_of(config, kMinDescriptors);
    EXPECT_GE(limits.connections, 1U);
    EXPECT_LE((listeners + 3) * limits.connections, kMinDescriptors / 2) << listeners;
  }
}

TEST(DescriptorBudget, TooFewDescriptorsAreRefusedWithAdvice) {
  EXPECT_TRUE(check_descriptors(kMinDescriptors).ok());
  EXPECT_TRUE(check_descriptors(RLIM_INFINITY).ok());
  const auto few = check_descriptors(kMinDescriptors - 1);
  ASSERT_FALSE(few.ok());
  EXPECT_EQ(few.error().code, Errc::invalid);
  for (const char* advice : {"63", "64", "ulimit -n", "LimitNOFILE"}) {
    EXPECT_NE(few.error().message.find(advice), std::string::npos) << few.error().message;
  }
}

TEST(DescriptorBudget, InfiniteRlimitKeepsDefaults) {
  const auto limits = limits_of({}, RLIM_INFINITY);
  EXPECT_EQ(limits.connections, http::Limits{}.connections);
  EXPECT_EQ(limits.streams, http::Limits{}.streams);
  EXPECT_EQ(max_waiting_claims(RLIM_INFINITY), limits::kMaxWaitingClaims);
}

TEST(DescriptorBudget, ConfigSetsLimitsPerQuotaGroup) {
  config::Config config;
  config.shares.connections = 7;
  config.shares.streams = 3;
  const auto limits = limits_of(config, RLIM_INFINITY);
  EXPECT_EQ(limits.connections_per_group, 7U);
  EXPECT_EQ(limits.streams_per_group, 3U);
}

}  // namespace
}  // namespace gpuyard::daemon
