// Streams over real sockets: what a memory pipe cannot show.
#include "io/http/event_stream.h"
#include "io/http/response_stream_for_tests.h"
#include "io/http/server_for_tests.h"

namespace gpuyard::http {
namespace {

using std::chrono::milliseconds;
using testing::EndsWith;

class ServerStream : public ServerTest {
 protected:
  Handler streaming() {
    return [this](const Request&, Reply reply) {
      sources_.push_back(std::make_shared<ManualStream>());
      reply(event_stream(sources_.back()));
    };
  }
  void say_to_all(const Chunk& chunk) {
    for (const auto& source : sources_) source->say(chunk);
  }
  // A socket that nobody reads.
  UniqueFd stuck_reader(const Endpoint& endpoint) {
    const auto address = to_socket_address(endpoint);
    UniqueFd socket(::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), address->get(), address->length), 0);
    EXPECT_GT(::send(socket.get(), kGet.data(), kGet.size(), 0), 0);
    const std::size_t before = sources_.size();
    EXPECT_TRUE(settle([&] { return sources_.size() > before; }));
    return socket;
  }

  std::vector<std::shared_ptr<ManualStream>> sources_;
};

TEST_F(ServerStream, NonReadingClientIsDroppedOthersContinue) {
  Server server(loop_, streaming(),
                Limits{.write_timeout = milliseconds(50), .stream_unsent_bytes = 8192});
  ASSERT_TRUE(server.listen_unix(path()));
  const UniqueFd stuck = stuck_reader(on_unix());
  RawClient healthy(loop_, on_unix());
  healthy.send(kGet);
  healthy.receive("retry");
  const Chunk piece(std::string(10'000, 'x'));
  bool dropped = false;
  int said = 0;
  while (!dropped && said < 1000) {
    say_to_all(piece);
    ++said;
    EXPECT_TRUE(settle([&] { return sources_.at(1)->waiting() == 0; }));
    dropped =
        sources_.at(0)->waiting() > 0 && settle([&] { return server.counters().streams == 1; });
  }
  EXPECT_TRUE(dropped);
  EXPECT_LT(said, 8);  // what the kernel holds for it: twice the limit, and a chunk
  sources_.at(1)->say("the end");
  healthy.receive("the end");
}

TEST_F(ServerStream, DisconnectOfIdleClientIsDetected) {
  Server server(loop_, streaming());
  ASSERT_TRUE(server.listen_unix(path()));
  {
    RawClient client(loop_, on_unix());
    client.send(kGet);
    client.receive("retry");
  }
  EXPECT_TRUE(settle([&] { return server.counters().active == 0; }));
}

TEST_F(ServerStream, NoticesATcpClientThatLeavesWhenSomethingIsSent) {
  Server server(loop_, streaming());
  const auto bound = server.listen_tcp("127.0.0.1", 0);
  ASSERT_TRUE(bound);
  {
    RawClient client(loop_, Endpoint::tcp("127.0.0.1", bound->port));
    client.send(kGet);
    client.receive("retry");
  }
  sources_.at(0)->say("anybody?");
  EXPECT_TRUE(settle([&] {
    sources_.at(0)->say("anybody?");
    return server.counters().active == 0;
  }));
}

TEST_F(ServerStream, EndsAStuckReaderWhenTheGraceIsOver) {
  Server server(loop_, streaming());
  ASSERT_TRUE(server.listen_unix(path()));
  const UniqueFd stuck = stuck_reader(on_unix());
  while (sources_.at(0)->waiting() == 0) {
    sources_.at(0)->say(std::string(100'000, 'x'));
    loop_.poll();
  }
  bool done = false;
  server.shutdown(milliseconds(1), [&] { done = true; });
  EXPECT_TRUE(settle([&] { return done; }));
}

TEST_F(ServerStream, MayEndWithTheLoopWhileStreamsAreOpen) {
  auto loop = std::make_unique<IoLoop>();
  auto server = std::make_unique<Server>(*loop, streaming());
  ASSERT_TRUE(server->listen_unix(path()));
  {
    RawClient client(*loop, on_unix());
    client.send(kGet);
    client.receive("retry");
  }
  server.reset();
  loop.reset();
  sources_.at(0)->say("too late");
}

TEST_F(ServerStream, KeepsTwoHundredListenersInStep) {
  Server server(loop_, streaming());
  ASSERT_TRUE(server.listen_unix(path()));
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(std::make_unique<RawClient>(loop_, on_unix()));
    clients.back()->send(kGet);
  }
  EXPECT_TRUE(settle([&] { return server.counters().streams == 200; }));
  for (int i = 0; i < 20; ++i) say_to_all(event_chunk("tick", std::to_string(i)));
  std::string expected;
  for (int i = 0; i < 20; ++i) expected += event_chunk("tick", std::to_string(i)).framed();
  for (const auto& client : clients) {
    EXPECT_THAT(client->receive("data: 19\n\n\r\n"), EndsWith(expected));
  }
}

}  // namespace
}  // namespace gpuyard::http
