#include <random>
#include <set>

#include <gmock/gmock.h>

#include "faces/api/routes_for_tests.h"

namespace gpuyard::api {
namespace {

using protocol::GpuUse;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kBrief = "/api/gpu/brief";

class Brief : public LeaseRoutes {
 protected:
  Brief() : LeaseRoutes(3) {}

  protocol::Brief brief(http::Peer peer = over_tcp()) {
    const auto call = get(kBrief, std::move(peer));
    auto read = json::from_json<protocol::Brief>(call->text());
    EXPECT_TRUE(read) << call->text();
    return read ? *read : protocol::Brief{};
  }
};

TEST_F(Brief, EachGpuHasUserOrWithheldReason) {
  held(R"({"id":"train-1-of-many-leases"})", process(10));
  ask(http::Method::put, "/api/gpu/manage/2/cordon", R"({"reason":"fan"})", local_user(0));
  const auto now = brief();
  EXPECT_THAT(now.gpus.index, ElementsAre(0, 1, 2));
  EXPECT_THAT(now.gpus.use, ElementsAre(GpuUse::leased, GpuUse::free, GpuUse::withheld));
  EXPECT_THAT(now.gpus.user, ElementsAre("alice", std::nullopt, std::nullopt));
  EXPECT_THAT(now.gpus.why, ElementsAre(std::nullopt, std::nullopt, "cordoned"));
  EXPECT_THAT(now.gpus.model, ElementsAre(0, 0, 0));
  ASSERT_EQ(now.models.size(), 1U);
  EXPECT_EQ(now.models[0].name, "NVIDIA H100");
  EXPECT_FALSE(now.instance.empty());
}

TEST_F(Brief, WaitingClaimsAreCounted) {
  held(R"({"id":"train-1-of-many-leases","gpus":3})", process(10));
  claim(R"({"id":"train-2-of-many-leases"})", process(11));
  pass(seconds(1));
  EXPECT_EQ(brief().waiting, 1);
}

TEST_F(Brief, HasTheSameTagUntilSomethingChanges) {
  const auto first = get(kBrief);
  pass(seconds(5));
  EXPECT_EQ(get(kBrief)->answer->etag, first->answer->etag);
  held(R"({"id":"train-1-of-many-leases"})", process(10));
  ++context_.leases.changes;  // as LeasePublisher counts
  EXPECT_NE(get(kBrief)->answer->etag, first->answer->etag);
}

TEST_F(Brief, ShowsATokenItsOwnGpusAlone) {
  held(R"({"id":"train-1-of-many-leases","gpus":1})", process(10));
  claim(R"({"id":"train-2-of-many-leases","gpus":3})", process(11));
  token_ = made({.name = "one", .uid = kAlice, .gpus = {"GPU-1"}, .made_by = "uid 0"}).text;
  const auto now = brief(over_tls());
  EXPECT_THAT(now.gpus.uuid, ElementsAre("GPU-1"));
  EXPECT_EQ(now.waiting, 0);
}

class Free : public LeaseRoutes {
 protected:
  explicit Free(unsigned gpus = 3) : LeaseRoutes(gpus) {}

  protocol::FreeGpus free(const std::string& query, http::Peer peer) {
    const auto call = get("/api/gpu/free" + query, std::move(peer));
    auto read = json::from_json<protocol::FreeGpus>(call->text());
    EXPECT_TRUE(read) << call->text();
    return read ? *read : protocol::FreeGpus{};
  }
  static std::set<std::string> chosen(const protocol::FreeGpus& answer) {
    std::set<std::string> uuids;
    for (const auto& gpu : answer.gpus) {
      if (gpu.chosen) uuids.insert(gpu.uuid);
    }
    return uuids;
  }
};

TEST_F(Free, QueryNamesChosenGpusWithoutGranting) {
  const auto answer = free("?gpus=2", process(10));
  EXPECT_TRUE(answer.enough);
  EXPECT_EQ(answer.gpus.size(), 3U);
  EXPECT_EQ(chosen(answer).size(), 2U);
  EXPECT_EQ(answer.why, "");
  EXPECT_TRUE(free("?gpus=3", process(10)).enough);
}

TEST_F(Free, UnsatisfiableQueryHasReason) {
  held(R"({"id":"train-1-of-many-leases","gpus":2})", process(10));
  const auto few = free("?gpus=2", process(11));
  EXPECT_FALSE(few.enough);
  EXPECT_EQ(few.gpus.size(), 1U);
  EXPECT_THAT(few.why, HasSubstr("1 of 3 matching GPUs is free"));
  EXPECT_THAT(free("?gpus=4", process(11)).why,
              HasSubstr("4 GPUs requested, but this machine has 3"));
  EXPECT_THAT(free("?model=T4", process(11)).why, HasSubstr("no GPU of this machine matches"));
}

TEST_F(Free, GpusReservedForEarlierClaimAreNotOffered) {
  held(R"({"id":"train-1-of-many-leases","gpus":2})", process(10));
  claim(R"({"id":"train-2-of-many-leases","gpus":3})", process(11));
  const auto answer = free("", process(12));
  EXPECT_FALSE(answer.enough);
  EXPECT_THAT(answer.gpus, IsEmpty());
  EXPECT_EQ(answer.waiting, 1);
}

// The GPUs that it names are those that a claim without a wait then gets, whatever came before.
class RandomNode : public Free {
 protected:
  static constexpr unsigned kGpus = 5;
  RandomNode() : Free(kGpus) {}

  unsigned random_below(unsigned bound) { return static_cast<unsigned>(random_() % bound); }
  // Returns the lease of a new claim, which is kept for release_random_lease() unless it is over.
  protocol::Lease new_claim(std::uint32_t user, unsigned gpus, const char* wait_field) {
    const auto id = fmt::format("random-claim-{:06}-x", ++claims_);
    const auto lease =
        claim(fmt::format(R"({{"id":"{}","gpus":{},"binding":"detached","ttl_s":86400,{}}})", id,
                          gpus, wait_field),
              process(user, user))
            ->lease();
    if (lease.state != lease::LeaseState::ended) open_claims_.emplace_back(id, user);
    return lease;
  }
  void release_random_lease() {
    if (open_claims_.empty()) return;
    const auto one =
        open_claims_.begin() + random_below(static_cast<unsigned>(open_claims_.size()));
    del(fmt::format("{}/{}", kLeases, one->first), process(one->second, one->second));
    open_claims_.erase(one);
  }
  void change() {
    const std::uint32_t user = random_below(2) == 0 ? kAlice : kBob;
    const unsigned what = random_below(10);
    if (what == 0) new_claim(user, 1 + random_below(kGpus), kAnswerAtOnce);
    if (what == 1 || what == 2) new_claim(user, 1 + random_below(2), kNoWait);
    if (what == 3 || what == 4) {
      ask(what == 3 ? http::Method::put : http::Method::del,
          fmt::format("/api/gpu/manage/{}/cordon", random_below(kGpus)), R"({"reason":"x"})",
          local_user(0));
    }
    if (what > 4) release_random_lease();
    pass(seconds(2));
  }

  static constexpr const char* kAnswerAtOnce = R"("answer_within_s":0)";
  static constexpr const char* kNoWait = R"("wait_s":0)";
  std::vector<std::pair<std::string, std::uint32_t>> open_claims_;  // not over, with their users
  int claims_ = 0;
  std::mt19937 random_{20'261'125};  // the same cases in every run
};

TEST_F(RandomNode, QueryMatchesFollowingClaim) {
  RecordProperty("contract", "F3");
  constexpr int kRounds = 1000;
  int granted = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (unsigned i = random_below(6); i > 0; --i) change();
    const unsigned wanted = 1 + random_below(kGpus);
    const auto offer = free("?gpus=" + std::to_string(wanted), process(kAlice));
    const auto lease = new_claim(kAlice, wanted, kNoWait);
    ASSERT_EQ(offer.enough, lease.state == lease::LeaseState::held)
        << "round " << round << offer.why;
    std::set<std::string> got;
    for (const auto& gpu : lease.gpus) got.insert(gpu.uuid);
    ASSERT_EQ(chosen(offer), got);
    granted += offer.enough ? 1 : 0;
    pass(seconds(5));
  }
  EXPECT_GT(granted, kRounds / 20);
  EXPECT_LT(granted, kRounds - kRounds / 20);
}

}  // namespace
}  // namespace gpuyard::api
