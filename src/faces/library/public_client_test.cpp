// Tests the client without a daemon; test_client.py tests it with one.
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>

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

TEST_F(ClientTest, InvalidHostIsRefusedAtOnce) {
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

TEST_F(ClientTest, AbsentDaemonFailsRequestsNotOpening) {
  const auto client = Client::open({.host = "unix:///nonexistent/x.sock"});
  ASSERT_TRUE(client.ok());
  EXPECT_EQ(client->inventory().error().code, Errc::unavailable);
  EXPECT_EQ(client->events().next(std::chrono::seconds(1)).error().code, Errc::unavailable);
}

TEST_F(ClientTest, AnErrorHasNoControlCharacters) {
  char directory[] = "/tmp/gpuyard-client-XXXXXX";
  ASSERT_NE(::mkdtemp(directory), nullptr);
  const std::string path = std::string(directory) + "/a.sock";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener, 4), 0);
  std::thread server([&] {
    const std::string body = "{\"error\":{\"code\":\"conflict\",\"message\":\"a\\u001b\\u202eb\"}}";
    const std::string answer =
        "HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\nConnection: close\r\n"
        "Content-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body;
    for (int i = 0; i < 3; ++i) {
      const int one = ::accept(listener, nullptr, nullptr);
      std::string request(4096, '\0');
      static_cast<void>(::recv(one, request.data(), request.size(), 0));
      static_cast<void>(::send(one, answer.data(), answer.size(), MSG_NOSIGNAL));
      ::close(one);
    }
  });
  const auto client = Client::open({.host = "unix://" + path});
  EXPECT_EQ(client->inventory().error(), (gpuyard::Error{Errc::conflict, "a??b"}));
  EXPECT_EQ(client->leases().error(), (gpuyard::Error{Errc::conflict, "a??b"}));
  EXPECT_EQ(client->request("GET", "/").error(), (gpuyard::Error{Errc::conflict, "a??b"}));
  server.join();
  ::close(listener);
  ::unlink(path.c_str());
  ::rmdir(directory);
}

TEST_F(ClientTest, MalformedMethodOrPathIsRefused) {
  const auto client = Client::open({.host = "unix:///nonexistent/x.sock"});
  ASSERT_TRUE(client.ok());
  EXPECT_EQ(client->request("TRACE", "/").error().code, Errc::invalid);
  EXPECT_EQ(client->request("GET", "/a\r\nHost: b").error().code, Errc::invalid);
  EXPECT_EQ(client->request("GET", "a").error().code, Errc::invalid);
}

}  // namespace
