#include "faces/api/lease_stream.h"

#include "base/json_reader.h"
#include "faces/api/routes_for_tests.h"

namespace gpuyard::api {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using lease::LeaseState;

// One client that claims with a stream and reads all its events.
class LeaseStreams : public LeaseRoutes {
 protected:
  LeaseStreams() : LeaseRoutes(1) {}

  std::shared_ptr<http::ResponseStream> stream(const std::string& body, http::Peer peer) {
    const auto call = claim(body, std::move(peer));
    EXPECT_EQ(call->status(), 200) << call->text();
    EXPECT_EQ(call->answer->content_type, "text/event-stream");
    return call->answer->stream;
  }
  // Returns the lease of the next event; nothing: there is none now.
  static std::optional<protocol::Lease> next(http::ResponseStream& claim_stream) {
    const http::Chunk chunk = claim_stream.next();
    if (!chunk) return std::nullopt;
    const std::string text(chunk.text());
    const std::string begin = "event: lease\ndata: ";
    EXPECT_TRUE(text.starts_with(begin)) << text;
    auto lease = json::from_json<protocol::Lease>(
        text.substr(begin.size(), text.find('\n', begin.size()) - begin.size()));
    EXPECT_TRUE(lease) << text;
    return lease ? std::optional(*lease) : std::nullopt;
  }
  std::size_t events_in(Duration time, http::ResponseStream& claim_stream) {
    std::size_t events = 0;
    for (Duration passed{}; passed < time; passed += milliseconds(100)) {
      pass(milliseconds(100));
      while (next(claim_stream)) ++events;
    }
    return events;
  }
};

TEST_F(LeaseStreams, LeaseIsSentAtOnceAndOnChange) {
  held(R"({"id":"first-of-many-leases"})", process(10));
  const auto claim_stream =
      stream(R"({"id":"second-of-many-leases","stream":true})", process(11, kBob));
  int woken = 0;
  claim_stream->set_on_more([&] { ++woken; });
  auto lease = next(*claim_stream);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->state, LeaseState::waiting);
  ASSERT_TRUE(lease->place);
  EXPECT_EQ(lease->place->position, 1);
  EXPECT_FALSE(next(*claim_stream));

  del("/api/gpu/leases/first-of-many-leases", process(10));
  pass(milliseconds(500));
  EXPECT_GT(woken, 0);
  lease = next(*claim_stream);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->state, LeaseState::held);
  EXPECT_FALSE(lease->place);
  EXPECT_FALSE(claim_stream->is_over());

  del("/api/gpu/leases/second-of-many-leases", process(11, kBob));
  pass(milliseconds(500));
  lease = next(*claim_stream);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->state, LeaseState::ended);
  EXPECT_FALSE(next(*claim_stream));
  EXPECT_TRUE(claim_stream->is_over());
}

TEST_F(LeaseStreams, OnlyChangedPositionIsSentAgain) {
  held(R"({"id":"first-of-many-leases","max_time_s":600})", process(10));
  const auto ahead = claim(R"({"id":"ahead-of-many-leases"})", process(11, kBob));
  const auto claim_stream =
      stream(R"({"id":"me-of-many-leases","stream":true})", process(12, kBob));
  ASSERT_EQ(next(*claim_stream)->place->position, 2);
  EXPECT_EQ(events_in(seconds(20), *claim_stream), 0U);
  del("/api/gpu/leases/ahead-of-many-leases", process(11, kBob));
  pass(milliseconds(1100));
  const auto moved = next(*claim_stream);
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->place->position, 1);
}

TEST_F(LeaseStreams, FrequentPositionChangesAreSentOncePerSecond) {
  held(R"({"id":"first-of-many-leases"})", process(10));
  const auto claim_stream =
      stream(R"({"id":"me-of-many-leases","stream":true})", process(12, kBob));
  next(*claim_stream);
  std::size_t events = 0;
  for (int i = 0; i < 40; ++i) {  // 4 seconds, in which the holder's name changes all the time
    context_.users.name_of = [i](std::uint32_t) {
      return std::optional("user " + std::to_string(i));
    };
    pass(milliseconds(100));
    while (next(*claim_stream)) ++events;
  }
  EXPECT_EQ(events, 4U);
}

TEST_F(LeaseStreams, OneQueueSnapshotServesAllStreams) {
  held(R"({"id":"first-of-many-leases"})", process(10));
  std::vector<std::shared_ptr<http::ResponseStream>> streams;
  for (std::uint32_t pid = 100; pid < 150; ++pid) {
    streams.push_back(stream(R"({"stream":true})", process(pid, kBob)));
  }
  // The first is in the cache at once; the others wait for the next refresh.
  std::size_t placed = 0;
  for (const auto& claim_stream : streams) placed += next(*claim_stream)->place.has_value() ? 1 : 0;
  EXPECT_GE(placed, 1U);
  pass(seconds(1));
  for (const auto& claim_stream : streams) {
    if (const auto lease = next(*claim_stream)) ++placed;
  }
  EXPECT_EQ(placed, 50U);
}

TEST_F(LeaseStreams, OnlyClosedStreamEndsWaitingClaim) {
  held(R"({"id":"first-of-many-leases"})", process(10));
  auto claim_stream = stream(R"({"id":"me-of-many-leases","stream":true})", process(12, kBob));
  pass(10 * lease::LeaseManager::kReconnectTimeout);
  EXPECT_EQ(world_.state("me-of-many-leases"), LeaseState::waiting);
  claim_stream.reset();
  pass(lease::LeaseManager::kReconnectTimeout + seconds(2));
  EXPECT_EQ(world_.state("me-of-many-leases"), LeaseState::ended);
}

TEST_F(LeaseStreams, ALeaseEndsSoonAfterItsStream) {
  auto claim_stream = stream(R"({"id":"me-of-many-leases","stream":true})", process(12, kBob));
  EXPECT_EQ(next(*claim_stream)->state, LeaseState::held);
  pass(seconds(60));
  EXPECT_EQ(world_.state("me-of-many-leases"), LeaseState::held);
  claim_stream.reset();
  pass(lease::LeaseManager::kStreamGrace + seconds(3));
  EXPECT_EQ(world_.state("me-of-many-leases"), LeaseState::ended);
}

TEST_F(LeaseStreams, DisconnectBeforeFirstReplyEndsClaim) {
  const auto call = ask(http::Method::post, kLeases, R"({"id":"me-of-many-leases","stream":true})",
                        process(12, kBob));
  call->answer.reset();  // the session had no client to send it to
  pass(lease::LeaseManager::kStreamGrace + seconds(3));
  EXPECT_EQ(world_.state("me-of-many-leases"), LeaseState::ended);
}

TEST_F(LeaseStreams, NoneFreeWithoutWaitEndsStream) {
  held(R"({"id":"first-of-many-leases"})", process(10));
  const auto claim_stream = stream(R"({"wait_s":0,"stream":true})", process(12, kBob));
  EXPECT_EQ(next(*claim_stream)->end_reason, lease::EndReason::none_free);
  EXPECT_TRUE(claim_stream->is_over());
}

TEST_F(LeaseStreams, ANoteIsInItsOwnersStream) {
  const auto claim_stream = stream(R"({"note":"train.py","stream":true})", process(12, kBob));
  EXPECT_EQ(next(*claim_stream)->note, "train.py");
}

TEST_F(LeaseStreams, OpenStreamMayOutliveLeaseManager) {
  held(R"({"id":"first-of-many-leases"})", process(10));
  auto claim_stream = stream(R"({"id":"me-of-many-leases","stream":true})", process(12, kBob));
  next(*claim_stream);
  world_.kill();
  claim_stream.reset();
}

TEST_F(LeaseStreams, InvalidClaimGetsErrorWithoutStream) {
  const auto refused = claim(R"({"gpus":9,"stream":true})", process(12, kBob));
  EXPECT_EQ(refused->status(), 400);
  EXPECT_EQ(refused->answer->stream, nullptr);
}

}  // namespace
}  // namespace gpuyard::api
