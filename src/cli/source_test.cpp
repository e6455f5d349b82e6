#include "cli/source.h"

#include <gtest/gtest.h>

#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {
namespace {

TEST(TargetOf, APathFieldIsFilledAndEncoded) {
  EXPECT_EQ(client::target_of("/api/gpu/devices/{id}", {{"id", "GPU a/b"}}),
            "/api/gpu/devices/GPU%20a%2Fb");
}

TEST(TargetOf, OtherParametersGoIntoTheQuery) {
  EXPECT_EQ(client::target_of("/x", {{"a", "1"}, {"b", "2&3"}}), "/x?a=1&b=2%263");
}

TEST(NamedValues, ARoutesParametersAreItsRecordsMembers) {
  EXPECT_EQ(named_values(protocol::DeviceName{"3"}), (NamedValues{{"id", "3"}}));
  EXPECT_TRUE(named_values(protocol::NoParams{}).empty());
}

TEST(ErrorOf, RefusalKeepsDaemonCodeAndMessage) {
  EXPECT_EQ(client::error_of({503, {}, R"({"error":{"code":"busy","message":"64 wait"}})"}),
            (Error{Errc::busy, "64 wait"}));
  EXPECT_EQ(client::error_of({503, {}, R"({"detail":"no NVML"})"}),
            (Error{Errc::unavailable, "no NVML"}));
}

TEST(ErrorOf, ForeignErrorBodyFallsBackToStatus) {
  EXPECT_EQ(client::error_of({403, {}, "<html>"}),
            (Error{Errc::denied, "status 403 from a proxy or another server"}));
  EXPECT_EQ(client::error_of({409, {}, R"({"error":{"code":"of tomorrow","message":"x"}})"}),
            (Error{Errc::conflict, "x"}));
  EXPECT_EQ(client::error_of({502, {}, R"({"error":"x"})"}),
            (Error{Errc::device_lost, R"({"error":"x"})"}));
}

TEST(OpenSource, MissingNamedDaemonIsUnavailable) {
  SourceOptions options;
  options.socket = "/nowhere/gpuyard.sock";
  auto source = open_source(options);
  ASSERT_TRUE(source.ok());
  const auto snapshot = (*source)->snapshot(ProbeSet::all(), OwnerLookup::looked_up);
  ASSERT_FALSE(snapshot.ok());
  EXPECT_EQ(snapshot.error().code, Errc::unavailable);
  EXPECT_NE(snapshot.error().message.find("/nowhere/gpuyard.sock"), std::string::npos);
}

TEST(OpenSource, InvalidAddressIsUsageError) {
  SourceOptions options;
  options.socket = "localhost";
  const auto source = open_source(options);
  ASSERT_FALSE(source.ok());
  EXPECT_EQ(source.error().code, Errc::invalid);
}

TEST(OpenSource, WithoutADaemonTheLocalDriverIsAsked) {
  SourceOptions options;
  options.sockets = {"/nowhere/gpuyard.sock"};
  options.driver.path = "/nowhere/libnvidia-ml.so.1";
  const auto source = open_source(options);
  ASSERT_FALSE(source.ok());
  EXPECT_EQ(source.error().message.find("failed to initialise NVML: "), 0U);
}

}  // namespace
}  // namespace gpuyard::cli
