#include "daemon/descriptor_budget.h"

#include <gtest/gtest.h>

#include "lease/leases.h"

namespace gpuyard::daemon {
namespace {

TEST(DescriptorBudget, ConnectionsAndClaimsLeaveDescriptorsForTheRest) {
  config::Config config;
  config.server.listen = {"127.0.0.1:9410", "[::1]:9410"};
  for (const rlim_t descriptors : {1024U, 4096U, 20'000U}) {
    const auto limits = limits_of(config, descriptors);
    const std::size_t doors = config.server.listen.size() + 2;
    const std::size_t taken = doors * (limits.connections + limits.kept_places);
    EXPECT_LE(taken + 2 * most_waiting_claims(descriptors), descriptors * 3 / 4) << descriptors;
    EXPECT_LT(limits.streams, limits.connections);
  }
}

TEST(DescriptorBudget, MoreThanEnoughChangesNothing) {
  const auto limits = limits_of({}, RLIM_INFINITY);
  EXPECT_EQ(limits.connections, http::Limits{}.connections);
  EXPECT_EQ(limits.streams, http::Limits{}.streams);
  EXPECT_EQ(most_waiting_claims(RLIM_INFINITY), lease::Leases::kMostWaiting);
}

TEST(DescriptorBudget, TheConfigurationSaysWhatOneMayHave) {
  config::Config config;
  config.shares.connections = 7;
  config.shares.streams = 3;
  const auto limits = limits_of(config, RLIM_INFINITY);
  EXPECT_EQ(limits.connections_of_one, 7U);
  EXPECT_EQ(limits.streams_of_one, 3U);
}

}  // namespace
}  // namespace gpuyard::daemon
