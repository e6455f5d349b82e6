#include "daemon/config_check.h"

#include <string>

#include <gtest/gtest.h>

namespace gpuyard::daemon {
namespace {

config::Config valid() {
  config::Config config;
  config.server.socket = "/tmp/gpuyard.sock";
  return config;
}

TEST(ConfigCheck, TheDefaultsAreValid) {
  EXPECT_TRUE(check_config(valid()).ok());
}

TEST(ConfigCheck, InvalidAddressErrorNamesKey) {
  auto config = valid();
  config.server.listen = {"localhost"};
  const auto result = check_config(config);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Errc::invalid);
  EXPECT_EQ(result.error().message.find("server.listen"), 0U);
}

TEST(ConfigCheck, SocketPathAmongTcpAddressesIsInvalid) {
  auto config = valid();
  config.server.listen = {"/tmp/x.sock"};
  EXPECT_NE(check_config(config).error().cause.find("server.socket"), std::string::npos);
}

TEST(ConfigCheck, TooLongSocketPathIsRefused) {
  auto config = valid();
  config.server.socket = "/" + std::string(200, 'x');
  EXPECT_EQ(check_config(config).error().message.find("server.socket"), 0U);
}

TEST(ConfigCheck, WhereZeusListensIsCheckedAsWell) {
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

TEST(ConfigCheck, AMetricPrefixMustStartAName) {
  auto config = valid();
  config.metrics.prefix = "9lives";
  EXPECT_EQ(check_config(config).error().message.find("metrics.prefix"), 0U);
}

TEST(ConfigCheck, UnhealthyBelowDegradedIsRefused) {
  auto config = valid();
  config.health.common = {85, 75};
  EXPECT_EQ(check_config(config).error().message.find("health: "), 0U);
  config = valid();
  config.health.of_gpu["3"] = {85, 75};
  EXPECT_EQ(check_config(config).error().message.find("health.temperatures_of 3: "), 0U);
}

}  // namespace
}  // namespace gpuyard::daemon
