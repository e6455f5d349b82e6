#include "io/kubelet/client.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>

#include <gmock/gmock.h>

#include "base/scratch_directory_for_tests.h"
#include "base/unique_fd.h"
#include "io/kubelet/server_frames_for_tests.h"
#include "io/kubelet/wire_bytes_for_tests.h"

namespace gpuyard::kubelet {
namespace {

using std::chrono::milliseconds;
using testing::SizeIs;

constexpr Duration kTestTimeout = std::chrono::seconds(20);  // reached only by a test that fails
constexpr Duration kShortTimeout = milliseconds(50);

// Listens at a Unix socket, and accepts nobody.
class Listener {
 public:
  Listener() : path_(directory_.in("kubelet.sock")) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    socket_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    EXPECT_EQ(::listen(socket_.get(), 1), 0);
  }
  const std::string& path() const { return path_; }
  UniqueFd accept() { return UniqueFd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }
  void close() { socket_.reset(); }

 private:
  ScratchDirectory directory_;
  std::string path_;
  UniqueFd socket_;
};

// A server on a thread of its own, for one connection.
class Server {
 public:
  explicit Server(std::function<void(int)> serve)
      : thread_([this, serve = std::move(serve)] { serve(listener_.accept().get()); }) {}
  ~Server() { thread_.join(); }
  const std::string& path() const { return listener_.path(); }

 private:
  Listener listener_;
  std::thread thread_;
};

bool send_bytes(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void wait_for_close(int socket) {
  char space[4096];
  while (::recv(socket, space, sizeof space, 0) > 0) continue;
}

// Sends `bytes` once the request has begun to arrive, and then waits.
std::function<void(int)> send_and_wait(std::string bytes) {
  return [bytes = std::move(bytes)](int socket) {
    char space[1];
    (void)::recv(socket, space, sizeof space, 0);
    (void)send_bytes(socket, bytes);
    wait_for_close(socket);
  };
}

Error error_of(const std::string& path, Duration timeout = kTestTimeout) {
  auto pods = fetch_pods(path, timeout);
  return pods ? Error{Errc::conflict, "pods"} : std::move(pods).error();
}

std::string refusal(const std::string& status, const std::string& message) {
  return settings_frame() + headers_frame(kEndStream, {{":status", "200"},
                                                       {"content-type", "application/grpc"},
                                                       {"grpc-status", status},
                                                       {"grpc-message", message}});
}

TEST(FetchPods, PodsAreReturned) {
  const Server server(send_and_wait(response_with(bytes_field(1, pod_message("ml", "a", {})))));
  const auto pods = fetch_pods(server.path(), kTestTimeout);
  ASSERT_TRUE(pods) << pods.error().text();
  ASSERT_THAT(*pods, SizeIs(1));
  EXPECT_EQ(pods->front().name, "a");
}

TEST(FetchAllocatableDevices, DevicesAreReturned) {
  const Server server(
      send_and_wait(response_with(bytes_field(1, container_devices("nvidia.com/gpu", {"GPU-1"})))));
  const auto allocatable = fetch_allocatable_devices(server.path(), kTestTimeout);
  ASSERT_TRUE(allocatable) << allocatable.error().text();
  EXPECT_THAT(allocatable->devices, SizeIs(1));
}

TEST(FetchPods, AbsentSocketIsNotFound) {
  const ScratchDirectory directory;
  const Error error = error_of(directory.in("kubelet.sock"));
  EXPECT_EQ(error.code, Errc::not_found);
  EXPECT_EQ(error.message,
            "listing pods at " + directory.in("kubelet.sock") + ": the socket does not exist");
}

TEST(FetchPods, SocketWithoutAListenerIsUnavailable) {
  Listener listener;
  listener.close();
  EXPECT_EQ(error_of(listener.path()).code, Errc::unavailable);
}

TEST(FetchPods, PathThatIsTooLongIsInvalid) {
  EXPECT_EQ(error_of("/" + std::string(200, 'a')).code, Errc::invalid);
}

TEST(FetchPods, SilentServerTimesOut) {
  const Listener listener;
  EXPECT_EQ(error_of(listener.path(), kShortTimeout).code, Errc::timed_out);
}

// The deadline holds for the whole call: a server that always has something to say gets no more.
TEST(FetchPods, EndlessResponseTimesOut) {
  const Server server([](int socket) {
    if (!send_bytes(socket, settings_frame())) return;
    while (send_bytes(socket, frame(kPingFrame, 0, 0, "12345678"))) {
      char space[4096];
      (void)::recv(socket, space, sizeof space, MSG_DONTWAIT);
    }
  });
  EXPECT_EQ(error_of(server.path(), kShortTimeout).code, Errc::timed_out);
}

TEST(FetchPods, ClosedConnectionIsUnavailable) {
  const Server server([](int socket) { (void)send_bytes(socket, settings_frame()); });
  EXPECT_EQ(error_of(server.path()).code, Errc::unavailable);
}

TEST(FetchPods, RefusalHasItsStatus) {
  const Server server(send_and_wait(refusal("12", "unknown%20service%1B[1m")));
  const Error error = error_of(server.path());
  EXPECT_EQ(error.code, Errc::unsupported);
  EXPECT_EQ(error.message,
            "listing pods at " + server.path() + ": refused with UNIMPLEMENTED (12)");
  EXPECT_EQ(error.cause, "unknown service?[1m");
}

TEST(FetchPods, RefusalsHaveTheirCodes) {
  const std::pair<const char*, Errc> expected[] = {
      {"4", Errc::timed_out}, {"7", Errc::denied},       {"8", Errc::busy},
      {"16", Errc::denied},   {"14", Errc::unavailable}, {"2", Errc::unavailable}};
  for (const auto& [status, code] : expected) {
    const Server server(send_and_wait(refusal(status, "")));
    EXPECT_EQ(error_of(server.path()).code, code) << status;
  }
}

TEST(FetchPods, MalformedMessageIsInvalid) {
  const Server server(send_and_wait(response_with("\xFF")));
  const Error error = error_of(server.path());
  EXPECT_EQ(error.code, Errc::invalid);
  EXPECT_EQ(error.cause, "it is damaged or incomplete");
}

}  // namespace
}  // namespace gpuyard::kubelet
