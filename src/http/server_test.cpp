// Servers over real sockets: what a memory pipe cannot show.
#include "http/server.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <gmock/gmock.h>

#include "base/log.h"
#include "http/test_client.h"

namespace gpuyard::http {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kGet = "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n";
constexpr std::string_view kGetAndClose =
    "GET /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

class ServerTest : public testing::Test {
 protected:
  Handler handler() {
    return [this](Request request, Reply reply) {
      last_ = std::move(request);
      if (hold_) {
        held_.push_back(std::move(reply));
      } else {
        reply(Response(200, "text/plain", body_));
      }
    };
  }
  std::string path() const { return directory_.in("a.sock"); }
  Endpoint on_unix() const { return Endpoint::unix_socket(path()); }
  bool settle(const std::function<bool()>& done) { return loop_.run_until(done, kPatience); }
  static bool is_there(const std::string& path) {
    struct stat info{};
    return ::lstat(path.c_str(), &info) == 0;
  }

  ScratchDirectory directory_;
  IoLoop loop_;
  Request last_;
  std::string body_ = "hello";
  bool hold_ = false;
  std::vector<Reply> held_;
};

using TcpServer = ServerTest;
using UnixServer = ServerTest;
using AnyServer = ServerTest;

TEST_F(TcpServer, AnswersOnAPortOfTheKernelsChoice) {
  Server server(loop_, handler());
  const auto bound = server.listen_tcp("127.0.0.1", 0);
  ASSERT_TRUE(bound) << bound.error().message;
  EXPECT_EQ(bound->address, "127.0.0.1");
  RawClient client(loop_, Endpoint::tcp(bound->address, bound->port));
  client.send(kGet);
  EXPECT_THAT(client.receive("hello"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(last_.peer.kind, Peer::Kind::tcp);
  EXPECT_THAT(last_.peer.address, StartsWith("127.0.0.1:"));
  EXPECT_EQ(last_.peer.listener, Endpoint::tcp(bound->address, bound->port).text());
}

TEST_F(TcpServer, SaysWhenThePortIsTaken) {
  Server first(loop_, handler());
  const auto bound = first.listen_tcp("127.0.0.1", 0);
  ASSERT_TRUE(bound);
  Server second(loop_, handler());
  const auto again = second.listen_tcp("127.0.0.1", bound->port);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::conflict);
  EXPECT_EQ(again.error().message,
            Endpoint::tcp("127.0.0.1", bound->port).text() +
                " is in use by another program; choose another with --listen");
}

TEST_F(TcpServer, RefusesANameAndAForeignAddress) {
  Server server(loop_, handler());
  for (const char* address : {"localhost", "", "203.0.113.1"}) {
    const auto bound = server.listen_tcp(address, 0);
    ASSERT_FALSE(bound) << address;
    EXPECT_EQ(bound.error().code, Errc::invalid);
  }
}

TEST_F(TcpServer, ServesEveryAddressUnderTheOneThatWasConnectedTo) {
  Server server(loop_, handler());
  const auto bound = server.listen_tcp("0.0.0.0", 0);
  ASSERT_TRUE(bound);
  RawClient ours(loop_, Endpoint::tcp("127.0.0.1", bound->port));
  ours.send("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  EXPECT_THAT(ours.receive("hello"), StartsWith("HTTP/1.1 200 "));
  RawClient foreign(loop_, Endpoint::tcp("127.0.0.1", bound->port));
  foreign.send("GET / HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
  EXPECT_THAT(foreign.receive("}}"), StartsWith("HTTP/1.1 421 "));
}

TEST_F(TcpServer, DeliversARefusalToAClientThatIsStillSending) {
  Server server(loop_, handler());
  const auto bound = server.listen_tcp("127.0.0.1", 0);
  ASSERT_TRUE(bound);
  RawClient client(loop_, Endpoint::tcp(bound->address, bound->port));
  client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" +
              std::string(100'000, 'x'));
  EXPECT_THAT(client.receive_all(), StartsWith("HTTP/1.1 413 "));
}

TEST_F(UnixServer, KnowsWhoIsAsking) {
  Server server(loop_, handler());
  ASSERT_TRUE(server.listen_unix(path()));
  RawClient client(loop_, on_unix());
  client.send("GET / HTTP/1.1\r\nHost: whatever.example\r\n\r\n");
  client.receive("hello");
  EXPECT_EQ(last_.peer.kind, Peer::Kind::unix_socket);
  EXPECT_EQ(last_.peer.uid, ::getuid());
  EXPECT_EQ(last_.peer.gid, ::getgid());
  EXPECT_EQ(last_.peer.pid, ::getpid());
  EXPECT_EQ(last_.peer.listener, path());
}

TEST_F(UnixServer, GivesTheSocketItsModeWhateverTheUmask) {
  const mode_t before = ::umask(077);
  Server server(loop_, handler());
  ASSERT_TRUE(server.listen_unix(path(), 0666));
  ::umask(before);
  struct stat info{};
  ASSERT_EQ(::stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0666U);
}

TEST_F(UnixServer, LeavesNothingBehindWhenItCloses) {
  {
    Server server(loop_, handler());
    ASSERT_TRUE(server.listen_unix(path()));
  }
  EXPECT_FALSE(is_there(path()));
}

TEST_F(UnixServer, ReplacesAStaleSocket) {
  const auto address = to_socket_address(on_unix());
  {
    const UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(dead.get(), address->get(), address->length), 0);
  }
  Server server(loop_, handler());
  const auto listening = server.listen_unix(path());
  ASSERT_TRUE(listening) << listening.error().message;
  RawClient client(loop_, on_unix());
  EXPECT_TRUE(client.connected());
}

TEST_F(UnixServer, DoesNotTakeTheSocketOfALivingOne) {
  Server first(loop_, handler());
  ASSERT_TRUE(first.listen_unix(path()));
  {
    Server second(loop_, handler());
    const auto listening = second.listen_unix(path());
    ASSERT_FALSE(listening);
    EXPECT_EQ(listening.error().code, Errc::conflict);
    EXPECT_EQ(listening.error().message, "another gpuyard is listening on " + path());
  }
  RawClient client(loop_, on_unix());
  EXPECT_TRUE(client.connected());
}

TEST_F(UnixServer, NeverDeletesWhatIsNoSocket) {
  const std::string file = directory_.in("file");
  const UniqueFd created(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  Server server(loop_, handler());
  const auto listening = server.listen_unix(file);
  ASSERT_FALSE(listening);
  EXPECT_EQ(listening.error().code, Errc::conflict);
  EXPECT_TRUE(is_there(file));
}

TEST_F(UnixServer, LeavesTheSocketOfItsSuccessor) {
  auto first = std::make_unique<Server>(loop_, handler());
  ASSERT_TRUE(first->listen_unix(path()));
  ::unlink(path().c_str());
  Server second(loop_, handler());
  ASSERT_TRUE(second.listen_unix(path()));
  first.reset();
  EXPECT_TRUE(is_there(path()));
}

TEST_F(UnixServer, NamesTheLimitOfAPath) {
  Server server(loop_, handler());
  const auto listening = server.listen_unix("/tmp/" + std::string(200, 'x'));
  ASSERT_FALSE(listening);
  EXPECT_EQ(listening.error().code, Errc::invalid);
  EXPECT_THAT(listening.error().message, HasSubstr("107"));
}

TEST_F(UnixServer, SaysWhichDirectoryIsMissing) {
  Server server(loop_, handler());
  const auto listening = server.listen_unix("/nonexistent/a.sock");
  ASSERT_FALSE(listening);
  EXPECT_THAT(listening.error().message, HasSubstr("/nonexistent"));
}

TEST_F(AnyServer, ServesSeveralDoorsAndTellsThemApart) {
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

TEST_F(AnyServer, TurnsAwayConnectionsOverItsLimit) {
  Server server(loop_, handler(), Limits{.connections = 2});
  ASSERT_TRUE(server.listen_unix(path()));
  RawClient first(loop_, on_unix());
  RawClient second(loop_, on_unix());
  EXPECT_TRUE(settle([&] { return server.counters().active == 2; }));
  RawClient third(loop_, on_unix());
  EXPECT_THAT(third.receive_all(), StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(server.counters().refused, 1U);
  EXPECT_EQ(server.counters().accepted, 2U);
  first.close();
  EXPECT_TRUE(settle([&] { return server.counters().active == 1; }));
  RawClient fourth(loop_, on_unix());
  fourth.send(kGet);
  fourth.receive("hello");
}

TEST_F(AnyServer, DropsAClientThatDoesNotRead) {
  body_ = std::string(8'000'000, 'x');
  Server server(loop_, handler(), Limits{.write = milliseconds(10)});
  ASSERT_TRUE(server.listen_unix(path()));
  const UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto address = to_socket_address(on_unix());
  ASSERT_EQ(::connect(client.get(), address->get(), address->length), 0);
  ASSERT_GT(::send(client.get(), kGet.data(), kGet.size(), 0), 0);
  EXPECT_TRUE(settle([&] { return server.counters().requests == 1; }));
  EXPECT_TRUE(settle([&] { return server.counters().active == 0; }));
}

TEST_F(AnyServer, SaysBusyWhenAHandlerTakesTooLong) {
  hold_ = true;
  Server server(loop_, handler(), Limits{.handler = milliseconds(5)});
  ASSERT_TRUE(server.listen_unix(path()));
  RawClient client(loop_, on_unix());
  client.send(kGet);
  EXPECT_THAT(client.receive("}}"), StartsWith("HTTP/1.1 503 "));
  held_.clear();  // too late, and harmless
}

TEST_F(AnyServer, GoesOnAfterRunningOutOfDescriptors) {
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
  EXPECT_TRUE(settle([&] { return complaints > 0; }));
  EXPECT_EQ(server.counters().accepted, 0U);
  ::setrlimit(RLIMIT_NOFILE, &before);
  client.send(kGet);
  client.receive("hello");
  EXPECT_EQ(complaints, 1);
  log::capture(nullptr);
}

TEST_F(AnyServer, ShutsDownAtOnceWhenOnlyIdleConnectionsAreLeft) {
  Server server(loop_, handler());
  ASSERT_TRUE(server.listen_unix(path()));
  RawClient client(loop_, on_unix());
  client.send(kGet);
  client.receive("hello");
  bool done = false;
  server.shutdown(kPatience, [&] { done = true; });
  EXPECT_FALSE(is_there(path()));
  EXPECT_TRUE(settle([&] { return done; }));
  EXPECT_EQ(server.counters().active, 0U);
}

TEST_F(AnyServer, LetsAResponseFinishWhenItShutsDown) {
  hold_ = true;
  Server server(loop_, handler());
  ASSERT_TRUE(server.listen_unix(path()));
  RawClient client(loop_, on_unix());
  client.send(kGet);
  EXPECT_TRUE(settle([&] { return !held_.empty(); }));
  bool done = false;
  server.shutdown(kPatience, [&] { done = true; });
  loop_.poll();
  EXPECT_FALSE(done);
  held_.at(0)(Response(200, "text/plain", "late"));
  EXPECT_THAT(client.receive("late"), HasSubstr("Connection: close\r\n"));
  client.close();
  EXPECT_TRUE(settle([&] { return done; }));
}

TEST_F(AnyServer, ClosesEverythingWhenTheGraceIsOver) {
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

TEST_F(AnyServer, SaysDoneWhenNobodyWasConnected) {
  Server server(loop_, handler());
  bool done = false;
  server.shutdown(kPatience, [&] { done = true; });
  EXPECT_FALSE(done);
  EXPECT_TRUE(settle([&] { return done; }));
}

TEST_F(AnyServer, MayEndWithRepliesStillOut) {
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

TEST_F(AnyServer, MayEndWithTheLoopWhileConnectionsAreOpen) {
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
