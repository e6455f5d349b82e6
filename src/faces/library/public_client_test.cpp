// What a program sees of the client without a daemon; test_client.py has it with one.
#include <stdlib.h>

#include <gtest/gtest.h>

#include "gpuyard/client.h"

namespace {

using gpuyard::Client;
using gpuyard::Errc;

class ClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"GPUYARD_HOST", "GPUYARD_SOCKET", "GPUYARD_TOKEN"}) ::unsetenv(name);
  }
  void TearDown() override { SetUp(); }
};

TEST_F(ClientTest, AHostThatIsNoneIsSaidAtOnce) {
  EXPECT_EQ(Client::open({.host = "no host"}).error().code, Errc::invalid);
  EXPECT_EQ(Client::open({.host = "ssh://-oProxyCommand=x"}).error().code, Errc::invalid);
}

TEST_F(ClientTest, TwoSourcesThatDisagreeAreRefused) {
  ::setenv("GPUYARD_HOST", "unix:///run/a.sock", 1);
  ::setenv("GPUYARD_SOCKET", "/run/b.sock", 1);
  EXPECT_EQ(Client::open().error().code, Errc::invalid);
  ::setenv("GPUYARD_SOCKET", "/run/a.sock", 1);
  ASSERT_TRUE(Client::open().ok());
  EXPECT_EQ(Client::open()->name(), "/run/a.sock");
}

TEST_F(ClientTest, ADaemonThatIsAwayIsAnErrorOfTheRequest) {
  const auto client = Client::open({.host = "unix:///nonexistent/x.sock"});
  ASSERT_TRUE(client.ok());
  EXPECT_EQ(client->inventory().error().code, Errc::unavailable);
  EXPECT_EQ(client->events().next(std::chrono::seconds(1)).error().code, Errc::unavailable);
}

TEST_F(ClientTest, ARequestIsNothingButOneRequest) {
  const auto client = Client::open({.host = "unix:///nonexistent/x.sock"});
  ASSERT_TRUE(client.ok());
  EXPECT_EQ(client->request("TRACE", "/").error().code, Errc::invalid);
  EXPECT_EQ(client->request("GET", "/a\r\nHost: b").error().code, Errc::invalid);
  EXPECT_EQ(client->request("GET", "a").error().code, Errc::invalid);
}

}  // namespace
