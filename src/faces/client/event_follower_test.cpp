#include "faces/client/event_follower.h"

#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "base/scratch_directory_for_tests.h"
#include "base/unique_fd.h"
#include "io/http/endpoint.h"
#include "io/http/listening_socket.h"
#include "io/http/raw_client_for_tests.h"

namespace gpuyard::client {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using Kind = FollowerEvent::Kind;

constexpr std::string_view kHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

std::string chunk(const std::string& text) {
  char size[16];
  std::snprintf(size, sizeof(size), "%zx\r\n", text.size());
  return size + text + "\r\n";
}

std::string event_text(const std::string& id, const std::string& name = "device") {
  return chunk("id: " + id + "\nevent: " + name + "\ndata: {}\n\n");
}

// A daemon that gives one answer to each connection, closes it, and keeps the requests.
class ScriptedDaemon {
 public:
  explicit ScriptedDaemon(const std::vector<std::string>& answers)
      : listener_(*http::listen_on_unix(path(), 0600)), thread_([this, answers] {
          for (const std::string& answer : answers) serve(answer);
        }) {}
  ~ScriptedDaemon() { thread_.join(); }
  ScriptedDaemon(const ScriptedDaemon&) = delete;
  ScriptedDaemon& operator=(const ScriptedDaemon&) = delete;

  http::Endpoint endpoint() const { return http::Endpoint::unix_socket(path()); }
  const std::vector<std::string>& requests() const { return requests_; }

 private:
  std::string path() const { return directory_.in("a.sock"); }

  void serve(const std::string& answer) {
    pollfd ready{listener_.socket.get(), POLLIN, 0};
    constexpr int kAcceptTimeoutMs = 10'000;
    if (::poll(&ready, 1, kAcceptTimeoutMs) != 1) return;
    const UniqueFd one(::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::string request(4096, '\0');
    const auto got = ::recv(one.get(), request.data(), request.size(), 0);
    requests_.push_back(request.substr(0, request.find("\r\n")));
    if (got > 0) static_cast<void>(::send(one.get(), answer.data(), answer.size(), MSG_NOSIGNAL));
  }

  ScratchDirectory directory_;
  http::UnixListener listener_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

std::string complete(const std::string& events) {
  return std::string(kHead) + events + "0\r\n\r\n";
}

protocol::EventsRequest since(const std::string& id) {
  protocol::EventsRequest request;
  request.since = id;
  return request;
}

std::vector<FollowerEvent> take(EventFollower& follower, std::size_t most) {
  std::vector<FollowerEvent> all;
  while (all.size() < most) {
    auto received = follower.next(seconds(5));
    if (!received || !*received) break;
    all.push_back(**std::move(received));
  }
  return all;
}

std::vector<Kind> kinds(const std::vector<FollowerEvent>& received) {
  std::vector<Kind> all;
  for (const FollowerEvent& one : received) all.push_back(one.kind);
  return all;
}

TEST(EventFollower, ReconnectContinuesAfterLastEvent) {
  ScriptedDaemon daemon(
      {std::string(kHead) + event_text("e-1") + event_text("e-2"), complete(event_text("e-3"))});
  EventFollower follower(daemon.endpoint(), since("oldest"));
  const auto received = take(follower, 5);
  EXPECT_EQ(kinds(received),
            (std::vector{Kind::event, Kind::event, Kind::away, Kind::back, Kind::event}));
  EXPECT_EQ(follower.last_event_id(), "e-3");
  EXPECT_THAT(daemon.requests().back(), HasSubstr("since=e-2"));
}

TEST(EventFollower, EvictedEventsAreReportedLost) {
  ScriptedDaemon daemon({complete(event_text("n-7", "resync")), complete(event_text("n-1"))});
  EventFollower follower(daemon.endpoint(), since("old-9"));
  const auto received = take(follower, 2);
  EXPECT_EQ(kinds(received), (std::vector{Kind::lost, Kind::event}));
  EXPECT_THAT(daemon.requests().back(), HasSubstr("since=oldest"));
}

TEST(EventFollower, ANewListenerBeginsWhereTheDaemonIs) {
  ScriptedDaemon daemon(
      {std::string(kHead) + event_text("n-7", "resync"), complete(event_text("n-8"))});
  EventFollower follower(daemon.endpoint(), {});
  EXPECT_EQ(kinds(take(follower, 3)), (std::vector{Kind::away, Kind::back, Kind::event}));
  EXPECT_THAT(daemon.requests().back(), HasSubstr("since=n-7"));
}

TEST(EventFollower, NoFollowReportsEnd) {
  ScriptedDaemon daemon({complete(event_text("e-1"))});
  auto once = since("oldest");
  once.follow = false;
  EventFollower follower(daemon.endpoint(), once);
  const auto received = take(follower, 3);
  EXPECT_EQ(kinds(received), (std::vector{Kind::event, Kind::ended, Kind::ended}));
}

TEST(EventFollower, MissingOrRefusingDaemonIsError) {
  EventFollower nobody(http::Endpoint::unix_socket("/nonexistent/a.sock"), {});
  EXPECT_EQ(nobody.next(seconds(1)).error().code, Errc::unavailable);
  ScriptedDaemon daemon({"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"});
  EventFollower refused(daemon.endpoint(), {});
  EXPECT_EQ(refused.next(seconds(1)).error(), (Error{Errc::denied, "no"}));
}

}  // namespace
}  // namespace gpuyard::client
