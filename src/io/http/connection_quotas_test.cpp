// The quotas of connections and streams at a server, and the evictions when it is full.
#include <algorithm>
#include <deque>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "io/http/connection_quotas.h"

namespace gpuyard::http {
namespace {

enum class Activity : std::uint8_t { waiting, answering, streaming };
using Decision = ConnectionQuotas::QuotaDecision;

constexpr int kSlot = 0;
constexpr int kOtherSlot = 0;

class FakeConnection final : public Connection {
 public:
  FakeConnection(ConnectionQuotas& parties, QuotaGroup party, Activity doing, TimePoint since,
                 const void* seat)
      : quotas_(parties),
        party_(std::move(party)),
        doing_(doing),
        since_(since),
        listener_key_(seat) {
    quotas_.add(*this);
    if (doing == Activity::streaming) quotas_.begin_stream(*this);
  }
  ~FakeConnection() override { quotas_.remove(*this); }
  FakeConnection(const FakeConnection&) = delete;
  FakeConnection& operator=(const FakeConnection&) = delete;

  void finish() override { abort(); }
  void abort() override {
    ended_ = true;
    quotas_.end_stream(*this);
  }
  std::optional<TimePoint> waiting_since() const override {
    return doing_ == Activity::waiting && !ended_ ? std::optional(since_) : std::nullopt;
  }
  ListenerKey listener_key() const override { return listener_key_; }
  const QuotaGroup& quota_group() const override { return party_; }
  bool ended() const { return ended_; }

 private:
  ConnectionQuotas& quotas_;
  QuotaGroup party_;
  Activity doing_;
  bool ended_ = false;
  TimePoint since_;
  const void* listener_key_;
};

class FakeHandshake final : public Handshake {
 public:
  FakeHandshake(HandshakeQuotas& all, std::string from, std::optional<TimePoint> waiting)
      : all_(all), party_{std::move(from)}, waiting_(waiting) {
    all_.add(*this);
  }
  ~FakeHandshake() override { all_.remove(*this); }
  FakeHandshake(const FakeHandshake&) = delete;
  FakeHandshake& operator=(const FakeHandshake&) = delete;

  void abort() override { ended_ = true; }
  std::optional<TimePoint> waiting_since() const override { return waiting_; }
  const QuotaGroup& quota_group() const override { return party_; }
  bool ended() const { return ended_; }

 private:
  HandshakeQuotas& all_;
  QuotaGroup party_;
  std::optional<TimePoint> waiting_;
  bool ended_ = false;
};

class HandshakeQuotasTest : public ::testing::Test {
 protected:
  HandshakeQuotasTest() {
    limits_.handshakes = 4;
    limits_.handshakes_per_group = 2;
  }
  // A handshake whose client has been silent for so long; nothing: it waits for us.
  FakeHandshake& begin(const std::string& from, std::optional<int> silent_ms) {
    std::optional<TimePoint> since;
    if (silent_ms) since = now_ - std::chrono::milliseconds(*silent_ms);
    return begun_.emplace_back(handshakes_, from, since);
  }
  bool admit(const std::string& from) { return handshakes_.admit({from}, now_); }

  Limits limits_;
  TimePoint now_{std::chrono::hours(1)};
  HandshakeQuotas handshakes_{limits_};
  std::deque<FakeHandshake> begun_;
};

TEST_F(HandshakeQuotasTest, HaveAShareForEachAddress) {
  begin("a", 0);
  EXPECT_TRUE(admit("a"));
  begin("a", 0);
  EXPECT_FALSE(admit("a"));
  EXPECT_TRUE(admit("b"));
}

TEST_F(HandshakeQuotasTest, AreLimitedAltogether) {
  for (const char* from : {"a", "b", "c", "d"}) begin(from, 99);
  EXPECT_FALSE(admit("e"));
  for (const FakeHandshake& one : begun_) EXPECT_FALSE(one.ended());
}

TEST_F(HandshakeQuotasTest, LongestStalledHandshakeIsEvictedFirst) {
  FakeHandshake& busy = begin("a", std::nullopt);
  begin("b", 150);
  FakeHandshake& longest = begin("c", 300);
  begin("d", 200);
  EXPECT_TRUE(admit("e"));
  EXPECT_TRUE(longest.ended());
  EXPECT_FALSE(busy.ended());
  EXPECT_EQ(handshakes_.size(), 3U);
}

TEST_F(HandshakeQuotasTest, FullAddressQuotaEvictsFromSameAddress) {
  FakeHandshake& other = begin("b", 500);
  begin("a", 150);
  FakeHandshake& own = begin("a", 200);
  EXPECT_TRUE(admit("a"));
  EXPECT_TRUE(own.ended());
  EXPECT_FALSE(other.ended());
}

class ConnectionQuotasTest : public ::testing::Test {
 protected:
  static Limits small() {
    Limits limits;
    limits.connections = 8;
    limits.connections_per_group = 6;
    limits.streams = 6;
    limits.total_streams = 10;
    limits.streams_per_group = 5;
    limits.reserved_slots = 2;
    return limits;
  }
  FakeConnection& open(const std::string& who, Activity doing = Activity::answering,
                       const void* seat = &kSlot) {
    const bool root = who == "uid 0";
    return open_.emplace_back(quotas_, QuotaGroup{who, root}, doing, TimePoint(Duration(++opened_)),
                              seat);
  }
  void open(const std::string& who, int count, Activity doing) {
    for (int i = 0; i < count; ++i) open(who, doing);
  }
  std::size_t alive(const std::string& who) const {
    return static_cast<std::size_t>(std::ranges::count_if(open_, [&](const FakeConnection& one) {
      return one.quota_group().name == who && !one.ended();
    }));
  }
  Decision decide(const std::string& who) {
    std::size_t taken = 0;
    for (const FakeConnection& one : open_) taken += !one.ended() ? 1 : 0;
    return quotas_.admit({who, who == "uid 0"}, &kSlot, taken);
  }

  const Limits limits_ = small();
  ConnectionQuotas quotas_{limits_};
  std::deque<FakeConnection> open_;
  int opened_ = 0;
};

TEST_F(ConnectionQuotasTest, GroupAtQuotaIsRefused) {
  open("uid 1", 6, Activity::answering);
  EXPECT_EQ(decide("uid 1"), Decision::group_full);
  EXPECT_EQ(decide("uid 2"), Decision::admitted);
  EXPECT_EQ(alive("uid 1"), 6U) << "there was room";
}

TEST_F(ConnectionQuotasTest, OwnIdleConnectionIsEvictedFirst) {
  open("uid 1", 5, Activity::answering);
  FakeConnection& idle = open("uid 1", Activity::waiting);
  EXPECT_EQ(decide("uid 1"), Decision::admitted);
  EXPECT_TRUE(idle.ended());
}

TEST_F(ConnectionQuotasTest, FullListenerEvictsFromLargestGroup) {
  open("uid 1", 6, Activity::answering);
  open("uid 2", 2, Activity::answering);
  EXPECT_EQ(decide("uid 3"), Decision::admitted);
  EXPECT_EQ(alive("uid 1"), 5U);
  EXPECT_EQ(alive("uid 2"), 2U);
}

TEST_F(ConnectionQuotasTest, EqualGroupsEvictOnlyIdleConnection) {
  for (int uid = 1; uid <= 8; ++uid) open("uid " + std::to_string(uid));
  EXPECT_EQ(decide("uid 9"), Decision::server_full);
  EXPECT_EQ(decide("uid 1"), Decision::server_full);
  open_.pop_back();
  FakeConnection& idle = open("uid 8", Activity::waiting);
  EXPECT_EQ(decide("uid 9"), Decision::admitted);
  EXPECT_TRUE(idle.ended());
}

TEST_F(ConnectionQuotasTest, IdleConnectionOfSmallerGroupIsKept) {
  open("uid 1", 5, Activity::answering);
  FakeConnection& light = open("uid 2", Activity::waiting);
  open("uid 0", 2, Activity::waiting);
  EXPECT_EQ(decide("uid 1"), Decision::server_full);
  EXPECT_FALSE(light.ended());
  EXPECT_EQ(alive("uid 0"), 2U);
}

TEST_F(ConnectionQuotasTest, RootSlotsAreReservedAndNeverEvicted) {
  for (int uid = 1; uid <= 8; ++uid) open("uid " + std::to_string(uid));
  EXPECT_EQ(decide("uid 0"), Decision::admitted);
  open("uid 0", 2, Activity::answering);
  EXPECT_EQ(decide("uid 0"), Decision::server_full);
  EXPECT_EQ(decide("uid 9"), Decision::server_full);
  EXPECT_EQ(alive("uid 0"), 2U);
}

TEST_F(ConnectionQuotasTest, GroupAtStreamQuotaIsRefused) {
  open("uid 1", 5, Activity::streaming);
  EXPECT_EQ(quotas_.admit_stream(open("uid 1")), Decision::group_full);
  EXPECT_EQ(quotas_.admit_stream(open("uid 2")), Decision::admitted);
}

TEST_F(ConnectionQuotasTest, FullListenerEvictsStreamOfLargestGroup) {
  open("uid 1", 5, Activity::streaming);
  open("uid 2", 1, Activity::streaming);
  EXPECT_EQ(quotas_.admit_stream(open("uid 2")), Decision::admitted);
  EXPECT_EQ(alive("uid 1"), 4U);
  for (int uid = 3; uid <= 4; ++uid) open("uid " + std::to_string(uid), Activity::streaming);
  EXPECT_EQ(quotas_.admit_stream(open("uid 0")), Decision::admitted);
  EXPECT_EQ(alive("uid 1"), 4U) << "a place was kept";
}

TEST_F(ConnectionQuotasTest, AnotherListenerHasRoomOfItsOwn) {
  open("uid 1", 5, Activity::streaming);
  open("uid 2", 1, Activity::streaming);
  EXPECT_EQ(quotas_.admit_stream(open("uid 3", Activity::answering, &kOtherSlot)),
            Decision::admitted);
  EXPECT_EQ(alive("uid 1"), 5U);
}

}  // namespace
}  // namespace gpuyard::http
