#include "daemon/descriptor_budget.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace gpuyard::daemon {
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
