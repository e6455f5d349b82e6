#include "io/http/peer.h"

#include <fcntl.h>
#include <sys/wait.h>

#include "io/http/server_for_tests.h"

namespace gpuyard::http {
namespace {

using PeerProcess = ServerTest;

bool is_gone(const UniqueFd& process) {
  pollfd wanted{process.get(), POLLIN, 0};
  return ::poll(&wanted, 1, 0) == 1;
}

// Another process, which connects, sends a request, and ends on leave(). It makes only system
// calls, because it is a child of a program that may have threads.
class ClientProcess {
 public:
  explicit ClientProcess(const Endpoint& endpoint) {
    int pipe[2] = {-1, -1};
    if (::pipe2(pipe, O_CLOEXEC) != 0) return;
    UniqueFd leave(pipe[0]);
    leave_.reset(pipe[1]);
    const auto address = to_socket_address(endpoint);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::close(pipe[1]);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool asked = ::connect(socket, address->get(), address->length) == 0 &&
                       ::send(socket, kGet.data(), kGet.size(), MSG_NOSIGNAL) > 0;
    char byte = 0;
    const bool told = ::read(leave.get(), &byte, 1) >= 0;
    ::_exit(asked && told ? 0 : 1);
  }
  ~ClientProcess() { leave(); }
  ClientProcess(const ClientProcess&) = delete;
  ClientProcess& operator=(const ClientProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Ends the process and waits until even its zombie is gone.
  void leave() {
    leave_.reset();
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  UniqueFd leave_;
  pid_t pid_ = -1;
};

TEST_F(PeerProcess, HandleIsReadableAfterProcessExit) {
  Server server(loop_, handler());
  ASSERT_TRUE(server.listen_unix(path()));
  ClientProcess client_process(on_unix());
  ASSERT_TRUE(settle([&] { return server.counters().requests == 1; }));
  EXPECT_EQ(last_.peer.pid, client_process.pid());
  ASSERT_NE(last_.peer.process, nullptr);
  EXPECT_FALSE(is_gone(*last_.peer.process));
  client_process.leave();
  EXPECT_TRUE(is_gone(*last_.peer.process));
}

TEST_F(PeerProcess, OutlivesTheConnection) {
  Server server(loop_, handler());
  ASSERT_TRUE(server.listen_unix(path()));
  {
    RawClient client(loop_, on_unix());
    client.send(kGet);
    client.receive("hello");
  }
  ASSERT_TRUE(settle([&] { return server.counters().active == 0; }));
  ASSERT_NE(last_.peer.process, nullptr);
  EXPECT_FALSE(is_gone(*last_.peer.process));  // it is this one
}

TEST_F(PeerProcess, IsNotLeftToProgramsThatAreStarted) {
  Server server(loop_, handler());
  ASSERT_TRUE(server.listen_unix(path()));
  RawClient client(loop_, on_unix());
  client.send(kGet);
  client.receive("hello");
  ASSERT_NE(last_.peer.process, nullptr);
  EXPECT_EQ(::fcntl(last_.peer.process->get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST_F(PeerProcess, IsNotKnownOverTcp) {
  Server server(loop_, handler());
  const auto bound = server.listen_tcp("127.0.0.1", 0);
  ASSERT_TRUE(bound);
  RawClient client(loop_, Endpoint::tcp(bound->address, bound->port));
  client.send(kGet);
  client.receive("hello");
  EXPECT_EQ(last_.peer.process, nullptr);
}

TEST(InvalidSocketPeerProcess, IsNone) {
  const UniqueFd no_socket(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(peer_process(no_socket.get(), ::getpid()), nullptr);
  EXPECT_EQ(peer_process(-1, ::getpid()), nullptr);
}

using DisconnectNotification = ServerTest;

TEST_F(DisconnectNotification, DisconnectDuringHandlerIsReported) {
  hold_ = true;
  Server server(loop_, handler());
  ASSERT_TRUE(server.listen_unix(path()));
  int disconnects = 0;
  {
    RawClient client(loop_, on_unix());
    client.send(kGet);
    ASSERT_TRUE(settle([&] { return held_.size() == 1; }));
    last_.peer.disconnect_notifier->on_disconnect([&] { ++disconnects; });
    loop_.poll();
    EXPECT_EQ(disconnects, 0);
  }
  EXPECT_TRUE(settle([&] { return disconnects == 1; }));
}

TEST_F(DisconnectNotification, AnsweredClientDisconnectIsNotReported) {
  hold_ = true;
  Server server(loop_, handler());
  ASSERT_TRUE(server.listen_unix(path()));
  int disconnects = 0;
  {
    RawClient client(loop_, on_unix());
    client.send(kGet);
    ASSERT_TRUE(settle([&] { return held_.size() == 1; }));
    last_.peer.disconnect_notifier->on_disconnect([&] { ++disconnects; });
    held_.at(0)(Response(200, "text/plain", "hello"));
    client.receive("hello");
  }
  EXPECT_TRUE(settle([&] { return server.counters().active == 0; }));
  EXPECT_EQ(disconnects, 0);
}

TEST_F(DisconnectNotification, HandlerTimeoutNotifiesDisconnect) {
  hold_ = true;
  Server server(loop_, handler(), Limits{.handler_timeout = std::chrono::milliseconds(5)});
  ASSERT_TRUE(server.listen_unix(path()));
  RawClient client(loop_, on_unix());
  client.send(kGet);
  ASSERT_TRUE(settle([&] { return held_.size() == 1; }));
  int disconnects = 0;
  last_.peer.disconnect_notifier->on_disconnect([&] { ++disconnects; });
  client.receive("}}");
  EXPECT_EQ(disconnects, 1);
}

}  // namespace
}  // namespace gpuyard::http
