#include "io/http/server.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "base/log.h"
#include "io/http/limits.h"
#include "io/http/server_for_tests.h"

namespace gpuyard::http {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;

using ServerLifecycle = ServerTest;

TEST_F(ServerLifecycle, SeveralListenersAreDistinguished) {
  Server server(loop_, handler());
  ASSERT_TRUE(server.listen_unix(directory_.in("a.sock")));
  ASSERT_TRUE(server.listen_unix(directory_.in("b.sock"), 0600));
  for (const char* name : {"a.sock", "b.sock"}) {
    RawClient client(loop_, Endpoint::unix_socket(directory_.in(name)));
    client.send(kGet);
    client.receive("hello");
    EXPECT_EQ(last_.peer.listener, directory_.in(name));
  }
}

TEST_F(ServerLifecycle, ManyRequestsOfOneGroupDelayNoOther) {
  std::vector<std::string> handled;
  Server server(loop_, [&](const Request& request, Reply reply) {
    handled.push_back(request.peer.quota_group);
    const TimePoint end = BootClock::now() + milliseconds(1);
    while (BootClock::now() < end) {
    }
    reply(Response(200, "text/plain", body_));
  });
  const auto tcp = server.listen_tcp("127.0.0.1", 0);
  ASSERT_TRUE(tcp);
  ASSERT_TRUE(server.listen_unix(path()));
  constexpr std::size_t kCrowd = 50;
  std::vector<std::unique_ptr<RawClient>> crowd;
  for (std::size_t i = 0; i < kCrowd; ++i) {
    crowd.push_back(std::make_unique<RawClient>(loop_, Endpoint::tcp("127.0.0.1", tcp->port)));
  }
  RawClient other(loop_, on_unix());
  ASSERT_TRUE(settle([&] { return server.counters().active == kCrowd + 1; }));
  for (const auto& one : crowd) one->send(kGet);
  other.send(kGet);
  other.receive("hello");
  const auto place =
      std::ranges::find(handled, fmt::format("uid {}", ::geteuid())) - handled.begin();
  EXPECT_LE(place, 3);
  ASSERT_TRUE(settle([&] { return handled.size() == kCrowd + 1; }));
}

TEST_F(ServerLifecycle, ConnectionBeyondBusyLimitGets503) {
  hold_ = true;
  Server server(loop_, handler(), Limits{.connections = 2, .reserved_slots = 0});
  ASSERT_TRUE(server.listen_unix(path()));
  RawClient first(loop_, on_unix());
  RawClient second(loop_, on_unix());
  first.send(kGet);
  second.send(kGet);
  EXPECT_TRUE(settle([&] { return held_.size() == 2; }));
  RawClient third(loop_, on_unix());
  EXPECT_THAT(third.receive_all(), StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(server.counters().refused, 1U);
  for (Reply& reply : held_) reply(Response(200, "text/plain", body_));
  first.receive("hello");
  second.receive("hello");
}

TEST_F(ServerLifecycle, AnswersAClientThatStoppedSendingWhileItsHandlerWorks) {
  hold_ = true;
  Server server(loop_, handler());
  for (const bool unix_socket : {true, false}) {
    Endpoint endpoint = on_unix();
    if (unix_socket) {
      ASSERT_TRUE(server.listen_unix(path()));
    } else {
      endpoint = Endpoint::tcp("127.0.0.1", server.listen_tcp("127.0.0.1", 0)->port);
    }
    RawClient client(loop_, endpoint);
    client.send(kGet);
    ::shutdown(client.socket().get(), SHUT_WR);
    EXPECT_TRUE(settle([&] { return held_.size() == 1; }));
    held_.at(0)(Response(200, "text/plain", body_));
    held_.clear();
    client.receive("hello");
  }
}

TEST_F(ServerLifecycle, GoesOnAfterRunningOutOfDescriptors) {
  static int complaints = 0;
  log::capture([](log::Level, std::string_view) { ++complaints; });
  Server server(loop_, handler());
  ASSERT_TRUE(server.listen_unix(path()));
  RawClient client(loop_, on_unix());
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = before;
  none.rlim_cur = 3;
  ::setrlimit(RLIMIT_NOFILE, &none);
  // First accept, then watching again fails.
  EXPECT_TRUE(settle([&] { return complaints == 2; }));
  EXPECT_EQ(server.counters().accepted, 0U);
  ::setrlimit(RLIMIT_NOFILE, &before);
  client.send(kGet);
  client.receive("hello");
  log::capture(nullptr);
}

TEST_F(ServerLifecycle, ShutsDownAtOnceWhenOnlyIdleConnectionsAreLeft) {
  Server server(loop_, handler());
  ASSERT_TRUE(server.listen_unix(path()));
  RawClient client(loop_, on_unix());
  client.send(kGet);
  client.receive("hello");
  bool done = false;
  server.shutdown(kTestTimeout, [&] { done = true; });
  EXPECT_FALSE(is_there(path()));
  EXPECT_TRUE(settle([&] { return done; }));
  EXPECT_EQ(server.counters().active, 0U);
}

TEST_F(ServerLifecycle, LetsAResponseFinishWhenItShutsDown) {
  hold_ = true;
  Server server(loop_, handler());
  ASSERT_TRUE(server.listen_unix(path()));
  RawClient client(loop_, on_unix());
  client.send(kGet);
  EXPECT_TRUE(settle([&] { return !held_.empty(); }));
  bool done = false;
  server.shutdown(kTestTimeout, [&] { done = true; });
  loop_.poll();
  EXPECT_FALSE(done);
  held_.at(0)(Response(200, "text/plain", "late"));
  EXPECT_THAT(client.receive("late"), HasSubstr("Connection: close\r\n"));
  client.close();
  EXPECT_TRUE(settle([&] { return done; }));
}

TEST_F(ServerLifecycle, ClosesEverythingWhenTheGraceIsOver) {
  hold_ = true;
  Server server(loop_, handler());
  ASSERT_TRUE(server.listen_unix(path()));
  RawClient client(loop_, on_unix());
  client.send(kGet);
  EXPECT_TRUE(settle([&] { return !held_.empty(); }));
  bool done = false;
  server.shutdown(milliseconds(1), [&] { done = true; });
  EXPECT_TRUE(settle([&] { return done; }));
  EXPECT_EQ(client.receive_all(), "");
}

TEST_F(ServerLifecycle, ShutdownWithoutConnectionsCompletesAsynchronously) {
  Server server(loop_, handler());
  bool done = false;
  server.shutdown(kTestTimeout, [&] { done = true; });
  EXPECT_FALSE(done);
  EXPECT_TRUE(settle([&] { return done; }));
}

TEST_F(ServerLifecycle, MayEndWithRepliesStillOut) {
  hold_ = true;
  auto server = std::make_unique<Server>(loop_, handler());
  ASSERT_TRUE(server->listen_unix(path()));
  RawClient client(loop_, on_unix());
  client.send(std::string(kGet) + std::string(kGetAndClose));
  EXPECT_TRUE(settle([&] { return !held_.empty(); }));
  server.reset();
  held_.at(0)(Response(200, "text/plain", "late"));
  EXPECT_EQ(client.receive_all(), "");
  held_.clear();
}

TEST_F(ServerLifecycle, MayEndWithTheLoopWhileConnectionsAreOpen) {
  auto loop = std::make_unique<IoLoop>();
  auto server = std::make_unique<Server>(*loop, handler());
  ASSERT_TRUE(server->listen_unix(path()));
  {
    RawClient client(*loop, on_unix());
    client.send(kGet);
    client.receive("hello");
  }
  server.reset();
  loop.reset();
}

}  // namespace
}  // namespace gpuyard::http
