// Sessions over TLS, on memory and a clock that stands still.
#include "io/http/tls_stream.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "base/manual_loop_for_tests.h"
#include "io/http/event_stream.h"
#include "io/http/memory_pipe_for_tests.h"
#include "io/http/response_stream_for_tests.h"
#include "io/http/server_for_tests.h"
#include "io/http/tls_client_for_tests.h"

namespace gpuyard::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class TlsSessionTest : public testing::Test {
 protected:
  TlsSessionTest() { arrive(); }

  void arrive(const TlsClientForTests::Options& options = {}) {
    client_.emplace(options);
    pipe_ = std::make_unique<MemoryPipe>(io_);
    greet_on(*pipe_);
  }
  void greet_on(MemoryPipe& pipe) {
    IncomingConnection incoming;
    incoming.local_address = "127.0.0.1";
    incoming.quota_group.name = "192.0.2.7";
    start_handshake(context_, pipe.stream(), *identity_, seats_, std::move(incoming));
    io_.poll();
  }
  // Lets the bytes of both sides flow, so many of the client's at a time.
  void flow(std::size_t at_a_time = 1'000'000) {
    const std::string bytes = client_->take();
    for (std::size_t i = 0; i < bytes.size(); i += at_a_time) {
      pipe_->send(bytes.substr(i, at_a_time));
      io_.poll();
    }
  }
  bool agree_on(std::size_t at_a_time = 1'000'000) {
    bool done = client_->handshake();
    flow(at_a_time);
    client_->feed(pipe_->take_received());
    done = client_->handshake();
    flow(at_a_time);
    return done;
  }
  std::string exchange(std::string_view request) {
    pipe_->send(client_->encrypted(request));
    io_.poll();
    return client_->decrypted(pipe_->take_received());
  }
  void pass(Duration duration) {
    time_.advance(duration);
    io_.poll();
  }

  ManualLoop time_;  // outlives the sessions that the loop still holds
  IoLoop io_;
  IdentityForTests ours_;
  std::shared_ptr<const ServerIdentity> identity_ = ours_.load();
  Response answer_{200, "text/plain", "hello"};
  std::optional<Request> last_;
  std::shared_ptr<ServerContext> context_ = std::make_shared<ServerContext>(
      io_, time_,
      [this](Request request, Reply reply) {
        last_ = std::move(request);
        reply(answer_);
      },
      Limits());
  ConnectionSlots seats_ = std::make_shared<const int>(0);
  std::unique_ptr<MemoryPipe> pipe_;
  std::optional<TlsClientForTests> client_;
};

TEST_F(TlsSessionTest, RequestsAreAnsweredAndPeerIsEncrypted) {
  ASSERT_TRUE(agree_on());
  EXPECT_EQ(exchange(kGet), kHello);
  EXPECT_EQ(exchange(kGet), kHello);
  EXPECT_TRUE(last_->peer.encrypted);
  EXPECT_THAT(last_->peer.certificate_names, IsEmpty());
  EXPECT_EQ(last_->peer.certificate_fingerprint, "");
  EXPECT_EQ(context_->counters.handshakes_done, 1U);
  EXPECT_EQ(context_->counters.accepted, 1U);
}

TEST_F(TlsSessionTest, NamesAClientByItsCertificate) {
  const TestCertificate known("URI:spiffe://yard/node7");
  ours_.trust(known);
  identity_ = ours_.load();
  arrive({.shows = &known});
  ASSERT_TRUE(agree_on());
  exchange(kGet);
  EXPECT_THAT(last_->peer.certificate_names, ElementsAre("URI:spiffe://yard/node7"));
  EXPECT_EQ(last_->peer.certificate_fingerprint, facts_of(known.certificate.get()).fingerprint);
}

TEST_F(TlsSessionTest, RequestsSentWithHandshakeEndAreAnswered) {
  client_->handshake();
  flow();
  client_->feed(pipe_->take_received());
  ASSERT_TRUE(client_->handshake());
  std::string end = client_->take();
  end += client_->encrypted(kGet);
  end += client_->encrypted(kGet);
  pipe_->send(end);
  io_.poll();
  EXPECT_EQ(client_->decrypted(pipe_->take_received()), std::string(kHello) + std::string(kHello));
}

TEST_F(TlsSessionTest, SendsHeadAndBodyInOneRecord) {
  ASSERT_TRUE(agree_on());
  pipe_->send(client_->encrypted(kGet));
  client_->decrypted(pipe_->take_received());
  io_.poll();
  const std::string sealed = pipe_->take_received();
  constexpr std::size_t kRecord = 22;  // header, type and tag
  EXPECT_EQ(sealed.size(), kHello.size() + kRecord);
}

TEST_F(TlsSessionTest, SendsALongAnswerWhole) {
  answer_ = Response(200, "text/plain", std::string(1'000'000, 'x'));
  ASSERT_TRUE(agree_on());
  EXPECT_THAT(exchange(kGet), EndsWith("\r\n\r\n" + *answer_.body));
}

TEST_F(TlsSessionTest, SaysGoodbyeAfterTheLastAnswer) {
  ASSERT_TRUE(agree_on());
  EXPECT_THAT(exchange(kGetAndClose), EndsWith("hello"));
  EXPECT_TRUE(client_->has_received_close_notify());
  EXPECT_TRUE(pipe_->finished_by_server());
}

TEST_F(TlsSessionTest, EndsWithTheClientsGoodbye) {
  ASSERT_TRUE(agree_on());
  ::SSL_shutdown(client_->ssl());
  flow();
  EXPECT_EQ(context_->counters.active, 0U);
}

TEST_F(TlsSessionTest, EndsWithABrokenRecord) {
  ASSERT_TRUE(agree_on());
  std::string record = client_->encrypted(kGet);
  record.back() ^= 1;
  pipe_->send(record);
  io_.poll();
  EXPECT_EQ(context_->counters.active, 0U);
  EXPECT_EQ(context_->counters.requests, 0U);
}

TEST_F(TlsSessionTest, IsKnownByTheNamesOfItsCertificate) {
  auto made = make_self_signed({"dgx1.example"}, wall_now());
  ours_.directory().write("tls.crt", made->certificate);
  ours_.directory().write("tls.key", made->key);
  identity_ = ours_.load();
  arrive();
  ASSERT_TRUE(agree_on());
  EXPECT_EQ(exchange("GET /a HTTP/1.1\r\nHost: dgx1.example:9411\r\n\r\n"), kHello);
  EXPECT_THAT(exchange("GET /a HTTP/1.1\r\nHost: other.example\r\n\r\n"),
              StartsWith("HTTP/1.1 421"));
}

TEST_F(TlsSessionTest, UnfinishedHandshakeTakesNoSlot) {
  client_->handshake();
  flow();
  EXPECT_EQ(context_->counters.handshakes, 1U);
  EXPECT_EQ(context_->counters.active, 0U);
  EXPECT_EQ(seats_.use_count(), 1);
  client_->feed(pipe_->take_received());
  client_->handshake();
  flow();
  EXPECT_EQ(context_->counters.handshakes, 0U);
  EXPECT_EQ(context_->counters.active, 1U);
  EXPECT_EQ(seats_.use_count(), 2);
}

TEST_F(TlsSessionTest, FullListenerRefusesClientAfterHandshake) {
  Limits limits;
  limits.connections = 0;
  context_ = std::make_shared<ServerContext>(io_, time_, context_->handler, limits);
  arrive();
  ASSERT_TRUE(agree_on());
  EXPECT_THAT(client_->decrypted(pipe_->take_received()), StartsWith("HTTP/1.1 503 "));
  EXPECT_TRUE(client_->has_received_close_notify());
  EXPECT_EQ(context_->counters.refused, 1U);
}

TEST_F(TlsSessionTest, WaitsForNoHandshakeBeyondItsDeadline) {
  client_->handshake();
  flow();
  pass(seconds(4));
  EXPECT_FALSE(pipe_->finished_by_server());
  EXPECT_EQ(context_->counters.handshakes, 1U);
  pass(seconds(1));
  EXPECT_TRUE(pipe_->finished_by_server());
  EXPECT_EQ(context_->counters.handshakes, 0U);
  EXPECT_EQ(context_->counters.handshakes_failed, 1U);
}

TEST_F(TlsSessionTest, TrickledBytesDoNotExtendHandshakeDeadline) {
  for (int i = 0; i < 49; ++i) {
    pipe_->send("\x16");
    pass(milliseconds(100));
  }
  pass(milliseconds(100));
  EXPECT_TRUE(pipe_->finished_by_server());
}

TEST_F(TlsSessionTest, PlainTextRequestGets400WithHttpsHint) {
  pipe_->send(kGet);
  io_.poll();
  const std::string answer = pipe_->take_received();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(answer, HasSubstr("this port uses HTTPS; put https:// in front"));
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(pipe_->finished_by_server());
  pass(Limits().linger_timeout);
  EXPECT_EQ(context_->counters.handshakes, 0U);
  EXPECT_EQ(context_->counters.requests, 0U);
}

TEST_F(TlsSessionTest, EndsWithGarbage) {
  pipe_->send(std::string(10'000, '\x16'));
  io_.poll();
  EXPECT_EQ(context_->counters.handshakes, 0U);
  EXPECT_EQ(context_->counters.handshakes_failed, 1U);
}

// A small request waits for one step only, however many handshakes are under way.
TEST_F(TlsSessionTest, OneHandshakeStepRunsPerLoopTurn) {
  constexpr int kCrowd = 20;
  std::vector<std::unique_ptr<MemoryPipe>> crowd;
  for (int i = 0; i < kCrowd; ++i) {
    crowd.push_back(std::make_unique<MemoryPipe>(io_));
    greet_on(*crowd.back());
  }
  for (const auto& pipe : crowd) {
    TlsClientForTests client;
    client.handshake();
    pipe->send(client.take());
  }
  const auto answered = [&] {
    return std::ranges::count_if(crowd, [](auto& pipe) { return !pipe->take_received().empty(); });
  };
  std::ptrdiff_t all = 0;
  std::ptrdiff_t most = 0;
  std::function<void()> look = [&] {
    const std::ptrdiff_t now = answered();
    all += now;
    most = std::max(most, now);
    if (all < kCrowd) io_.post(look);
  };
  look();
  io_.poll();
  EXPECT_EQ(all, kCrowd);
  EXPECT_EQ(most, 1);
}

}  // namespace
}  // namespace gpuyard::http
