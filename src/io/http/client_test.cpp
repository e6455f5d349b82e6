#include "io/http/client.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>

#include "io/http/endpoint.h"
#include "io/http/event_parser.h"
#include "io/http/event_stream.h"
#include "io/http/listening_socket.h"
#include "io/http/raw_client_for_tests.h"
#include "io/http/response_stream_for_tests.h"
#include "io/http/server.h"

namespace gpuyard::http {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// A server on a thread of its own, as a client's usually is.
class Daemon {
 public:
  explicit Daemon(Handler handler)
      : server_(loop_, std::move(handler)),
        listens_(server_.listen_unix(directory_.in("a.sock")).ok()),
        thread_([this] { loop_.run(); }) {
    EXPECT_TRUE(listens_);
  }
  ~Daemon() {
    loop_.stop();
    thread_.join();
  }
  Endpoint endpoint() const { return Endpoint::unix_socket(directory_.in("a.sock")); }

 private:
  ScratchDirectory directory_;
  IoLoop loop_;
  Server server_;
  bool listens_;
  std::thread thread_;
};

TEST(Fetch, ResponseIsReturned) {
  const Daemon daemon([](const Request& request, Reply reply) {
    Response response(201, "text/plain",
                      std::string(name_of(request.method)) + request.target + request.body +
                          std::string(request.header("x-a")) +
                          std::string(request.header("content-type")));
    response.headers.push_back(Header{"X-Answer", "yes"});
    reply(response);
  });
  ClientRequest request;
  request.method = Method::put;
  request.target = "/t?q=1";
  request.headers.push_back(Header{"X-A", "b"});
  request.body = "{}";
  const auto response = fetch(daemon.endpoint(), request, kTestTimeout);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 201);
  EXPECT_EQ(response->body, "PUT/t?q=1{}bapplication/json");
  EXPECT_EQ(response->header("x-answer"), "yes");
}

TEST(Fetch, LargeBodyIsReturned) {
  const auto body = std::make_shared<const std::string>(std::string(3'000'000, 'x'));
  const Daemon daemon(
      [&](const Request&, Reply reply) { reply(Response(200, "text/plain", body)); });
  const auto response = fetch(daemon.endpoint(), ClientRequest(), kTestTimeout);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->body, *body);
}

TEST(Fetch, RefusesABodyAboveItsLimit) {
  const Daemon daemon([](const Request&, Reply reply) {
    reply(Response(200, "text/plain", std::string(100, 'x')));
  });
  const auto response = fetch(daemon.endpoint(), ClientRequest(), kTestTimeout, 99);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::unavailable);
}

TEST(Fetch, AsksForAHeadWithoutWaitingForABody) {
  const Daemon daemon(
      [](const Request&, Reply reply) { reply(Response(200, "text/plain", "hello")); });
  ClientRequest request;
  request.method = Method::head;
  const auto response = fetch(daemon.endpoint(), request, kTestTimeout);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->body, "");
  EXPECT_EQ(response->header("content-length"), "5");
}

TEST(Fetch, OversizedRequestBodyReturnsRefusal) {
  const Daemon daemon([](const Request&, Reply reply) { reply(Response()); });
  ClientRequest request;
  request.method = Method::post;
  request.body = std::string(100'000, 'x');
  const auto response = fetch(daemon.endpoint(), request, kTestTimeout);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 413);
}

TEST(Fetch, CallsAMissingSocketUnavailableAndNamesIt) {
  const auto response =
      fetch(Endpoint::unix_socket("/nonexistent/a.sock"), ClientRequest(), kTestTimeout);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::unavailable);
  EXPECT_THAT(response.error().message, HasSubstr("/nonexistent/a.sock"));
}

TEST(Fetch, CallsARefusedConnectionUnavailableAndNamesIt) {
  std::uint16_t port = 0;
  {
    IoLoop loop;
    Server server(loop, nullptr);
    const auto bound = server.listen_tcp("127.0.0.1", 0);
    ASSERT_TRUE(bound);
    port = bound->port;
  }
  const Endpoint endpoint = Endpoint::tcp("127.0.0.1", port);
  const auto response = fetch(endpoint, ClientRequest(), kTestTimeout);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::unavailable);
  EXPECT_THAT(response.error().message, HasSubstr(endpoint.text()));
}

TEST(Fetch, CallsASilentServerTimedOut) {
  const ScratchDirectory directory;
  const auto listener = listen_on_unix(directory.in("a.sock"), 0666);
  ASSERT_TRUE(listener);
  const Endpoint endpoint = Endpoint::unix_socket(directory.in("a.sock"));
  const auto response = fetch(endpoint, ClientRequest(), milliseconds(20));
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::timed_out);
  EXPECT_THAT(response.error().message, HasSubstr(endpoint.text()));
}

TEST(Fetch, SlowlyDrippingServerTimesOut) {
  const ScratchDirectory directory;
  const auto listener = listen_on_unix(directory.in("a.sock"), 0666);
  ASSERT_TRUE(listener);
  std::atomic<bool> enough = false;
  std::thread server([&] {
    pollfd ready{listener->socket.get(), POLLIN, 0};
    ::poll(&ready, 1, -1);
    const UniqueFd client(::accept(listener->socket.get(), nullptr, nullptr));
    ::send(client.get(), "HTTP/1.1 200 OK\r\nX: ", 20, MSG_NOSIGNAL);
    while (!enough) {
      ::send(client.get(), "x", 1, MSG_NOSIGNAL);
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  const Endpoint endpoint = Endpoint::unix_socket(directory.in("a.sock"));
  const auto response = fetch(endpoint, ClientRequest(), milliseconds(30));
  enough = true;
  server.join();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::timed_out);
}

TEST(Fetch, CallsAnAnswerThatBreaksOffUnavailable) {
  const ScratchDirectory directory;
  const auto listener = listen_on_unix(directory.in("a.sock"), 0666);
  ASSERT_TRUE(listener);
  std::thread server([&] {
    pollfd ready{listener->socket.get(), POLLIN, 0};
    ::poll(&ready, 1, -1);
    const UniqueFd client(::accept(listener->socket.get(), nullptr, nullptr));
    char request[1024];
    ::recv(client.get(), request, sizeof request, 0);
    const std::string_view half = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    ::send(client.get(), half.data(), half.size(), MSG_NOSIGNAL);
  });
  const auto response =
      fetch(Endpoint::unix_socket(directory.in("a.sock")), ClientRequest(), kTestTimeout);
  server.join();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::unavailable);
}

TEST(Fetch, SendsNoLineBreakOfItsCaller) {
  ClientRequest request;
  request.target = "/ HTTP/1.1\r\nX: y";
  const auto response = fetch(Endpoint::unix_socket("/nonexistent"), request, kTestTimeout);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Errc::invalid);
}

// A stream that has all its events from the beginning.
Handler streaming(std::vector<Chunk> chunks, bool ends) {
  return [chunks = std::move(chunks), ends](const Request&, Reply reply) {
    const auto source = std::make_shared<ManualStream>();
    for (const Chunk& chunk : chunks) source->say(chunk);
    if (ends) source->end();
    reply(event_stream(source));
  };
}

TEST(EventReader, EventsAreReadUntilStreamEnd) {
  const Daemon daemon(streaming({event_chunk("a", "1", "e-1"), event_chunk("b", "2")}, true));
  auto reader = EventReader::open(daemon.endpoint(), ClientRequest(), kTestTimeout);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(reader->response().status, 200);
  EXPECT_EQ(*reader->next(kTestTimeout), (ServerEvent{"a", "e-1", "1"}));
  EXPECT_EQ(*reader->next(kTestTimeout), (ServerEvent{"b", "e-1", "2"}));
  const auto over = reader->next(kTestTimeout);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::not_found);
}

TEST(EventReader, MultiMegabyteEventIsRead) {
  const std::string data(3'000'000, 'x');
  const Daemon daemon(streaming({event_chunk("a", data)}, false));
  auto reader = EventReader::open(daemon.endpoint(), ClientRequest(), kTestTimeout);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ((**reader->next(kTestTimeout)).data, data);
}

TEST(EventReader, TimeoutWithoutEventReturnsEmpty) {
  const Daemon daemon(streaming({}, false));
  auto reader = EventReader::open(daemon.endpoint(), ClientRequest(), kTestTimeout);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(*reader->next(milliseconds(10)), std::nullopt);
  EXPECT_GE(reader->idle_time(), milliseconds(5));
}

TEST(EventReader, CallsAStreamThatBreaksOffUnavailable) {
  auto daemon = std::make_unique<Daemon>(streaming({event_chunk("a", "1")}, false));
  auto reader = EventReader::open(daemon->endpoint(), ClientRequest(), kTestTimeout);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_TRUE(reader->next(kTestTimeout));
  daemon = nullptr;
  const auto broken = reader->next(kTestTimeout);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, Errc::unavailable);
}

TEST(EventReader, BringsARefusalHomeWithItsBody) {
  const Daemon daemon([](const Request& request, Reply reply) {
    EXPECT_EQ(request.header("accept"), "text/event-stream");
    reply(Response(404, "text/plain", "no such GPU"));
  });
  const auto reader = EventReader::open(daemon.endpoint(), ClientRequest(), kTestTimeout);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(reader->response().status, 404);
  EXPECT_EQ(reader->response().body, "no such GPU");
}

}  // namespace
}  // namespace gpuyard::http
