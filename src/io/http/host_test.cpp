#include "http/host.h"

#include <gtest/gtest.h>

namespace gpuyard::http {
namespace {

TEST(HostAllowed, TakesLoopbackWhateverWasConnectedTo) {
  for (const char* host : {"localhost", "LocalHost:9410", "localhost.", "127.0.0.1", "127.8.9.10:1",
                           "[::1]", "[::1]:9410", "[0:0:0:0:0:0:0:1]"}) {
    EXPECT_TRUE(host_allowed(host, "10.0.0.1", {})) << host;
  }
}

TEST(HostAllowed, TakesTheAddressThatWasConnectedTo) {
  EXPECT_TRUE(host_allowed("10.0.0.1:9410", "10.0.0.1", {}));
  EXPECT_TRUE(host_allowed("[FE80::0:1]", "fe80::1", {}));
  EXPECT_FALSE(host_allowed("10.0.0.2", "10.0.0.1", {}));
}

TEST(HostAllowed, TakesConfiguredNames) {
  EXPECT_TRUE(host_allowed("Node7.example:80", "10.0.0.1", {"node7.Example"}));
  EXPECT_FALSE(host_allowed("node77.example", "10.0.0.1", {"node7.example"}));
}

TEST(HostAllowed, RefusesForeignNamesAndNonsense) {
  for (const char* host : {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
                           "localhost:x", "[::1", "[::1]x", "a b", "127.1:"}) {
    EXPECT_FALSE(host_allowed(host, "10.0.0.1", {"good"})) << host;
  }
}

}  // namespace
}  // namespace gpuyard::http
