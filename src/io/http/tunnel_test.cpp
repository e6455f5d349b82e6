#include "io/http/tunnel.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/scratch_directory_for_tests.h"
#include "io/http/client.h"
#include "io/http/raw_client_for_tests.h"

namespace gpuyard::http {
namespace {

using testing::HasSubstr;

// Answers each request without a body with how many it has answered.
constexpr const char* kCounts =
    "printf 'gpuyard-dial-stdio 1\\n'; n=0; end=$(printf '\\r'); "
    "while IFS= read -r line; do [ \"$line\" = \"$end\" ] || continue; n=$((n+1)); "
    "printf 'HTTP/1.1 200 OK\\r\\nContent-Length: 1\\r\\n\\r\\n%d' $n; done";

TunnelOptions shell(const std::string& script, Duration patience = kTestTimeout) {
  return {.name = "ssh://lab",
          .command = {"sh", "-c", script},
          .explain =
              [](const ChildExit& end) {
                return Error{Errc::conflict, fmt::format("{} {} {}", end.status.value_or(-1),
                                                         end.timed_out, end.stderr_tail)};
              },
          .greeting_timeout = patience};
}

Endpoint through(const std::string& script) {
  return Endpoint::through_tunnel(std::make_shared<Tunnel>(shell(script)));
}

std::string body_of(const Endpoint& endpoint, Method method = Method::get) {
  ClientRequest request;
  request.method = method;
  const auto response = fetch(endpoint, request, kTestTimeout);
  return response ? response->body : response.error().message;
}

TEST(HasGreeting, IsFoundBehindTheNoiseOfALogin) {
  const auto is_there = [](std::string_view received) {
    const auto greeted = has_greeting(received);
    return greeted && *greeted;
  };
  EXPECT_FALSE(is_there(""));
  EXPECT_FALSE(is_there("gpuyard-dial-stdio"));
  EXPECT_TRUE(is_there("gpuyard-dial-stdio 1\n"));
  EXPECT_TRUE(is_there("Welcome!\ngpuyard-dial-stdio 1\n"));
}

TEST(HasGreeting, TrailingDataOrTooMuchNoiseIsError) {
  EXPECT_FALSE(has_greeting("gpuyard-dial-stdio 1\nHTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(has_greeting(std::string(kMaxBytesBeforeGreeting, 'x')));
  EXPECT_FALSE(has_greeting(std::string(kMaxBytesBeforeGreeting + 1, 'x')));
}

TEST(TunnelConnection, ChildCarriesBytesAfterGreeting) {
  const auto line = TunnelConnection::open(shell("echo noise; echo 'gpuyard-dial-stdio 1'; cat"));
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_TRUE((*line)->is_idle());
  ASSERT_EQ(::send((*line)->descriptor(), "a", 1, MSG_NOSIGNAL), 1);
  pollfd entry{(*line)->descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&entry, 1, 20'000), 1);
  EXPECT_FALSE((*line)->is_idle());
  std::array<char, 8> space;
  EXPECT_EQ(::recv((*line)->descriptor(), space.data(), space.size(), 0), 1);
}

TEST(TunnelConnection, ChildExitErrorIncludesStatusAndStderr) {
  const auto line =
      TunnelConnection::open(shell("echo first >&2; printf 'no\\033 key\\n@@@@\\n' >&2; exit 3"));
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error(), (Error{Errc::conflict, "3 false first; no? key"}));
}

TEST(TunnelConnection, EndOfLongStderrIsKept) {
  const auto line = TunnelConnection::open(
      shell("i=0; while [ $i -lt 500 ]; do echo line$i >&2; i=$((i+1)); done; exit 1"));
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().message, "1 false line497; line498; line499");
}

TEST(TunnelConnection, AChildThatDoesNotGreetInTimeIsEnded) {
  const ScratchDirectory directory;
  const auto line = TunnelConnection::open(shell(
      "echo $$ >" + directory.in("pid") + "; exec sleep 600", std::chrono::milliseconds(300)));
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().message, "-1 true ");
  const std::string pid = directory.read("pid");
  if (pid.empty()) return;  // a machine so slow that not even the shell has begun
  EXPECT_EQ(::kill(std::stoi(pid), 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(TunnelConnection, MissingProgramErrorNamesPath) {
  TunnelOptions plan = shell("");
  plan.command = {"/nowhere/ssh"};
  const auto line = TunnelConnection::open(plan);
  ASSERT_FALSE(line);
  EXPECT_THAT(line.error().message, HasSubstr("/nowhere/ssh"));
}

TEST(Tunnel, OneConnectionCarriesManyRequests) {
  Endpoint endpoint = through(kCounts);
  EXPECT_EQ(body_of(endpoint), "1");
  const Endpoint moved = std::move(endpoint);
  endpoint = moved;
  EXPECT_EQ(body_of(moved), "2");
  EXPECT_EQ(body_of(endpoint, Method::post), "3");
}

TEST(Tunnel, EndedConnectionIsReopened) {
  // Each child answers one request and ends.
  const Endpoint endpoint = through(
      std::string(kCounts).replace(std::string(kCounts).find("; done"), 6, "; exit 0; done"));
  EXPECT_EQ(body_of(endpoint), "1");
  EXPECT_EQ(body_of(endpoint), "1");
  EXPECT_EQ(body_of(endpoint), "1");
}

TEST(Tunnel, AnAnswerThatBreaksOffIsExplained) {
  const Endpoint endpoint = through(
      "echo 'gpuyard-dial-stdio 1'; read -r line; printf 'HTTP/1.1 200 OK\\r\\n'; echo gone >&2; "
      "exit 4");
  EXPECT_EQ(body_of(endpoint), "4 false gone");
}

// `sh -c SCRIPT a b` has "a" in $0 and "b" in $1.
TEST(Tunnel, TextIsAnsweredAfterItsEnd) {
  const Tunnel carrier(shell("echo 'gpuyard-dial-stdio 1'; wc -c; echo \"$1\""));
  const auto line = carrier.open({"its-name", "--send-signals"});
  ASSERT_TRUE(line) << line.error().message;
  const std::string text(300'000, 'x');
  EXPECT_EQ(*(*line)->exchange(text, kTestTimeout, 1000), "300000\n--send-signals\n");
}

TEST(Tunnel, TextWithoutAnAnswerIsExplained) {
  const auto silent = Tunnel(shell("echo 'gpuyard-dial-stdio 1'; exec sleep 60")).open();
  const auto late = (*silent)->exchange("x", std::chrono::milliseconds(50), 1000);
  EXPECT_EQ(late.error().message, "-1 true ");
  const auto ended = Tunnel(shell("echo 'gpuyard-dial-stdio 1'; echo no >&2; exit 3")).open();
  EXPECT_EQ((*ended)->exchange("x", kTestTimeout, 1000).error().message, "3 false no");
  const auto floods = Tunnel(shell("echo 'gpuyard-dial-stdio 1'; cat; exec yes")).open();
  EXPECT_THAT((*floods)->exchange("x", kTestTimeout, 1000).error().message, HasSubstr("too long"));
}

TEST(Tunnel, ItsEndpointHasItsNameAndNoAddress) {
  const Endpoint endpoint = through("");
  EXPECT_EQ(endpoint.text(), "ssh://lab");
  EXPECT_EQ(endpoint.kind, Endpoint::Kind::tunnel);
  EXPECT_FALSE(to_socket_address(endpoint));
  EXPECT_EQ(endpoint, Endpoint(endpoint));
}

}  // namespace
}  // namespace gpuyard::http
