#include "io/http/listening_socket.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <optional>

#include <gtest/gtest.h>

#include "io/http/peer.h"
#include "io/http/server_for_tests.h"

namespace gpuyard::http {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

using TcpServer = ServerTest;
using UnixServer = ServerTest;

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
            Endpoint::tcp("127.0.0.1", bound->port).text() + " is in use by another program");
}

TEST_F(TcpServer, RefusesANameAndAForeignAddress) {
  Server server(loop_, handler());
  for (const char* address : {"localhost", ""}) {
    const auto bound = server.listen_tcp(address, 0);
    ASSERT_FALSE(bound) << address;
    EXPECT_EQ(bound.error().code, Errc::invalid);
  }
  // A documentation address, which this machine does not have.
  const auto bound = server.listen_tcp("203.0.113.1", 0);
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().code, Errc::unavailable);
}

TEST_F(TcpServer, WildcardListenerAcceptsConnectedAddressAsHost) {
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

TEST_F(TcpServer, RefusalReachesClientThatIsStillSending) {
  Server server(loop_, handler());
  const auto bound = server.listen_tcp("127.0.0.1", 0);
  ASSERT_TRUE(bound);
  RawClient client(loop_, Endpoint::tcp(bound->address, bound->port));
  client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" +
              std::string(100'000, 'x'));
  EXPECT_THAT(client.receive_all(), StartsWith("HTTP/1.1 413 "));
}

TEST_F(UnixServer, RequestCarriesPeerCredentials) {
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

// The supplementary groups of this thread alone, for as long as it lives.
class Groups {
 public:
  explicit Groups(const std::vector<gid_t>& groups)
      : before_(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr)))) {
    if (::getgroups(static_cast<int>(before_.size()), before_.data()) < 0) before_.clear();
    changed_ = set(groups);
  }
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;
  ~Groups() {
    if (changed_) {
      EXPECT_TRUE(set(before_));
    }
  }
  bool changed() const { return changed_; }

 private:
  // Uses the system call: glibc's function changes every thread.
  static bool set(const std::vector<gid_t>& groups) {
    return ::syscall(SYS_setgroups, groups.size(), groups.data()) == 0;
  }

  std::vector<gid_t> before_;
  bool changed_ = false;
};

class PeerGroups : public ServerTest, public testing::WithParamInterface<std::size_t> {
 protected:
  // Sends a request as a member of `groups` groups.
  Peer peer_in(std::size_t groups) {
    std::vector<gid_t> wanted;
    for (gid_t gid = 70'000; wanted.size() < groups; ++gid) wanted.push_back(gid);
    Server server(loop_, handler());
    EXPECT_TRUE(server.listen_unix(path()));
    std::optional<RawClient> client;
    {
      const Groups as(wanted);
      if (!as.changed()) return {};
      client.emplace(loop_, on_unix());
    }
    client->send(kGet);
    client->receive("hello");
    return last_.peer;
  }
};

TEST_P(PeerGroups, SupplementaryIdsAreCapturedAtConnect) {
  const Peer peer = peer_in(GetParam());
  if (peer.uid == static_cast<uid_t>(-1)) GTEST_SKIP() << "only root can change its groups";
  EXPECT_EQ(peer.groups.size(), GetParam() + 1);
  EXPECT_TRUE(peer.is_in_group(::getgid()));
  for (std::size_t i = 0; i < GetParam(); ++i) {
    EXPECT_TRUE(peer.is_in_group(static_cast<gid_t>(70'000 + i)));
  }
  EXPECT_FALSE(peer.is_in_group(static_cast<gid_t>(70'000 + GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Unix, PeerGroups, testing::Values(0, 1, 32, 33, kMaxPeerGroups));

TEST_F(PeerGroups, TooManyGroupsLeaveOnlyPrimaryGroup) {
  const Peer peer = peer_in(kMaxPeerGroups + 1);
  if (peer.uid == static_cast<uid_t>(-1)) GTEST_SKIP() << "only root can change its groups";
  EXPECT_EQ(peer.groups, std::vector{::getgid()});
  EXPECT_FALSE(peer.is_in_group(70'000));
}

TEST_F(TcpServer, PeerHasNoGroups) {
  Server server(loop_, handler());
  const auto bound = server.listen_tcp("127.0.0.1", 0);
  ASSERT_TRUE(bound);
  RawClient client(loop_, Endpoint::tcp(bound->address, bound->port));
  client.send(kGet);
  client.receive("hello");
  EXPECT_TRUE(last_.peer.groups.empty());
  EXPECT_FALSE(last_.peer.is_in_group(::getgid()));
  EXPECT_FALSE(last_.peer.is_in_group(last_.peer.gid));
}

TEST_F(UnixServer, SocketModeIgnoresUmask) {
  const mode_t before = ::umask(077);
  Server server(loop_, handler());
  ASSERT_TRUE(server.listen_unix(path(), 0666));
  ::umask(before);
  struct stat info{};
  ASSERT_EQ(::stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0666U);
}

TEST_F(UnixServer, CloseRemovesSocketFile) {
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

TEST_F(UnixServer, SocketOfRunningServerIsNotReplaced) {
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

TEST_F(UnixServer, NonSocketFileIsConflictAndKept) {
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

}  // namespace

}  // namespace gpuyard::http
