// libgpuyard's Pool as its users have it: through its header, by many threads.
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "faces/library/public_pool_for_tests.h"
#include "gpuyard/gpuyard.h"

namespace {

using namespace std::chrono_literals;
using gpuyard::HelperArbiter;
using gpuyard::kTestTimeout;
using gpuyard::Pool;
using gpuyard::pool_of;
using Lease = Pool::Lease;

// A thread that claims, and the lease that it got.
class Claimer {
 public:
  explicit Claimer(Pool pool, unsigned gpus = 1)
      : thread_([this, pool = std::move(pool), gpus](const std::stop_token& stop) {
          lease_ = pool.claim(kTestTimeout, stop, gpus);
        }) {}
  void stop() { thread_.request_stop(); }
  std::optional<Lease> take() {
    thread_.join();
    return std::move(lease_);
  }

 private:
  std::optional<Lease> lease_;
  std::jthread thread_;
};

static_assert(std::is_copy_constructible_v<Pool> && !std::is_copy_constructible_v<Lease>);
static_assert(std::is_nothrow_move_constructible_v<Lease>);

TEST(Pool, OfNoGpusAnswersNoneAtOnce) {
  RecordProperty("contract", "D1 D3 D8");
  for (const Pool& pool : {Pool(), pool_of({})}) {
    EXPECT_FALSE(pool.claim(kTestTimeout));
    EXPECT_FALSE(pool.try_claim());
    bool notified = false;
    const auto pending = pool.claim([&](const std::optional<Lease>& lease) { notified = !lease; });
    EXPECT_TRUE(notified);
    EXPECT_EQ(pool.capacity(), 0U);
    EXPECT_TRUE(pool.snapshot_leases().empty());
  }
}

TEST(Pool, IsMadeOfTheGpusThatWereFound) {
  RecordProperty("contract", "D1 D8 D9");
  const auto fleet = gpuyard::FakeFleet::with_healthy_gpus(3, 80'000'000'000);
  const auto monitor = gpuyard::Monitor::open(fleet);
  ASSERT_TRUE(monitor.ok());
  const auto pool = Pool::of(*monitor);
  ASSERT_TRUE(pool.ok());
  EXPECT_EQ(pool->capacity(), 3U);
  const auto shown = pool->snapshot_leases();
  EXPECT_EQ(shown[2].index, 2U);
  EXPECT_EQ(shown[2].vendor, "NVIDIA");
  EXPECT_EQ(shown[2].name, monitor->inventory()[2].name);
  EXPECT_FALSE(shown[2].name.empty());
}

TEST(Pool, DuplicateOrExcessGpusAreRefused) {
  EXPECT_EQ(Pool::of({{3, "", ""}, {3, "", ""}}).error().message, "GPU index 3 is listed twice");
  std::vector<Pool::Gpu> many(Pool::kMostGpus + 1);
  for (std::uint32_t i = 0; i < many.size(); ++i) many[i].index = i;
  EXPECT_EQ(Pool::of(many).error().code, gpuyard::Errc::invalid);
  many.pop_back();
  EXPECT_EQ(Pool::of(many)->capacity(), Pool::kMostGpus);
}

TEST(Pool, GpusKeepGivenOrderAndGaps) {
  RecordProperty("contract", "D9");
  const Pool pool = pool_of({7, 2, 5});
  const auto lease = pool.try_claim();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->index(), 7U);
  EXPECT_EQ(pool.snapshot_leases(), (std::vector<Pool::LeaseSnapshot>{
                                        {"NVIDIA", "GPU 7", 7, true},
                                        {"NVIDIA", "GPU 2", 2, false},
                                        {"NVIDIA", "GPU 5", 5, false},
                                    }));
}

TEST(Pool, TryClaimIsNoneWhenAllAreLeased) {
  RecordProperty("contract", "D3 D6");
  const Pool pool = pool_of({0, 1});
  const auto one = pool.try_claim();
  const auto other = pool.try_claim();
  EXPECT_TRUE(one && other);
  EXPECT_FALSE(pool.try_claim());
  EXPECT_EQ(pool.pending_claimers(), 0U);
}

TEST(Pool, ALeaseReleasesItselfWhenItIsDropped) {
  RecordProperty("contract", "D11");
  const Pool pool = pool_of({0});
  {
    const auto lease = pool.try_claim();
  }
  auto lease = pool.try_claim();
  ASSERT_TRUE(lease);
  lease->release();
  EXPECT_TRUE(lease->gpus().empty());
  lease->release();
  EXPECT_TRUE(pool.try_claim());
}

TEST(Pool, ALeaseThatWasMovedIsReleasedOnce) {
  RecordProperty("contract", "D11");
  const Pool pool = pool_of({0, 1});
  auto first = pool.try_claim();
  auto second = pool.try_claim();
  Lease moved = std::move(*first);
  first.reset();
  EXPECT_FALSE(pool.try_claim());
  moved = std::move(*second);  // releases GPU 0
  EXPECT_EQ(moved.index(), 1U);
  EXPECT_EQ(pool.try_claim()->index(), 0U);
}

TEST(Pool, ALeaseMayOutliveEveryPool) {
  RecordProperty("contract", "D11");
  std::optional<Lease> lease;
  bool notified = false;
  std::optional<Pool::PendingLease> pending;
  {
    const Pool pool = pool_of({4});
    lease = pool.claim(kTestTimeout);
    pending = pool.claim([&](const std::optional<Lease>& next) { notified = next.has_value(); });
  }
  EXPECT_EQ(lease->index(), 4U);
  lease.reset();
  EXPECT_TRUE(notified) << "and who waits is served";
}

TEST(Pool, ClaimWaitsWhileEveryGpuIsLeased) {
  RecordProperty("contract", "D2 D5");
  const Pool pool = pool_of({0});
  auto held = pool.try_claim();
  Claimer claimer(pool);
  await_pending(pool, 1);
  held.reset();
  const auto lease = claimer.take();
  EXPECT_TRUE(lease);
  EXPECT_EQ(pool.pending_claimers(), 0U);
}

TEST(Pool, ReleasedGpuGoesToWaiterBeforeTryClaim) {
  RecordProperty("contract", "D4");
  const Pool pool = pool_of({0});
  auto held = pool.try_claim();
  Claimer claimer(pool);
  await_pending(pool, 1);
  held.reset();  // whether the claimer runs already or not
  EXPECT_FALSE(pool.try_claim());
  EXPECT_TRUE(claimer.take());
}

TEST(Pool, WaitersAreServedInOrder) {
  RecordProperty("contract", "D4 D2");
  const Pool pool = pool_of({0});
  auto held = pool.try_claim();
  std::vector<int> served;
  std::vector<Pool::PendingLease> pending;
  std::vector<Lease> kept;
  for (int i = 0; i < 100; ++i) {
    pending.push_back(pool.claim([&served, &kept, i](std::optional<Lease> lease) {
      served.push_back(i);
      kept.push_back(*std::move(lease));
    }));
  }
  EXPECT_EQ(pool.pending_claimers(), 100U);
  held.reset();
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(served.size(), static_cast<std::size_t>(i) + 1);
    EXPECT_EQ(served.back(), i);
    Lease(std::move(kept.back())).release();
  }
}

TEST(Pool, SmallerClaimNeverOvertakesLarger) {
  RecordProperty("contract", "D4");
  const Pool pool = pool_of({0, 1});
  auto held = pool.try_claim();
  Claimer both(pool, 2);
  await_pending(pool, 1);
  Claimer one(pool);
  await_pending(pool, 2);
  held.reset();
  auto lease = both.take();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->gpus().size(), 2U);
  EXPECT_EQ(pool.pending_claimers(), 1U);
  lease.reset();
  EXPECT_TRUE(one.take());
}

TEST(Pool, StoppedWaiterLeavesQueue) {
  RecordProperty("contract", "D5 D6");
  const Pool pool = pool_of({0});
  auto held = pool.try_claim();
  Claimer first(pool);
  await_pending(pool, 1);
  Claimer second(pool);
  await_pending(pool, 2);
  first.stop();
  EXPECT_FALSE(first.take());
  EXPECT_EQ(pool.pending_claimers(), 1U);
  held.reset();
  EXPECT_TRUE(second.take());
}

TEST(Pool, StoppedTokenFailsClaim) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(pool_of({0}).claim(kTestTimeout, stop.get_token()));
}

TEST(Pool, ADeadlineThatPassesIsNone) {
  const Pool pool = pool_of({0});
  const auto held = pool.claim(0ms);
  EXPECT_TRUE(held);
  EXPECT_FALSE(pool.claim(0ms));
  EXPECT_FALSE(pool.claim(-1ms));
  EXPECT_EQ(pool.pending_claimers(), 0U);
  EXPECT_FALSE(pool.claim(kTestTimeout, {}, 2)) << "there never are two";
}

TEST(Pool, ADeadlineMayBeForEver) {
  const Pool pool = pool_of({0});
  auto held = pool.try_claim();
  std::jthread claimer([&] { EXPECT_TRUE(pool.claim(std::chrono::milliseconds::max())); });
  await_pending(pool, 1);
  held.reset();
}

TEST(Pool, StoppedHeadUnblocksLaterWaiter) {
  const Pool pool = pool_of({0, 1});
  const auto held = pool.try_claim();
  Claimer both(pool, 2);
  await_pending(pool, 1);
  Claimer one(pool);
  await_pending(pool, 2);
  both.stop();
  EXPECT_FALSE(both.take());
  EXPECT_TRUE(one.take());
}

TEST(Pool, FencesRiseFromGrantToGrant) {
  const Pool pool = pool_of({0, 1});
  const auto first = pool.try_claim();
  auto second = pool.try_claim();
  EXPECT_GT(second->fence(), first->fence());
  const auto before = second->fence();
  second.reset();
  EXPECT_GT(pool.try_claim()->fence(), before);
}

TEST(HelperArbiter, HelperYieldsToWaiterElseTakesFreeGpu) {
  RecordProperty("contract", "D7");
  const Pool pool = pool_of({0, 1});
  const HelperArbiter arbiter(pool);
  auto helper = arbiter.decide();
  ASSERT_TRUE(helper);
  helper = arbiter.decide(std::move(helper));
  ASSERT_TRUE(helper) << "nobody waits: it goes on with what it has";
  const auto other = pool.try_claim();
  EXPECT_FALSE(arbiter.decide()) << "none is free";
  Claimer claimer(pool);
  await_pending(pool, 1);
  helper = arbiter.decide(std::move(helper));
  EXPECT_FALSE(helper);
  EXPECT_TRUE(claimer.take());
}

TEST(HelperArbiter, WaiterKeepsHelperFromFreeGpu) {
  RecordProperty("contract", "D7");
  const Pool pool = pool_of({0, 1});
  const auto held = pool.try_claim();
  Claimer both(pool, 2);
  await_pending(pool, 1);
  EXPECT_FALSE(HelperArbiter(pool).decide());
  both.stop();
  EXPECT_FALSE(both.take());
  EXPECT_TRUE(HelperArbiter(pool).decide());
}

// Threads claim any number of GPUs: no GPU has two holders, and the fences of each rise.
TEST(Pool, HoldsAmongManyThreads) {
  RecordProperty("contract", "D11 D2");
  constexpr unsigned kGpus = 5;
  constexpr unsigned kThreads = 8;
  constexpr unsigned kRounds = 300;
  const Pool pool = pool_of({0, 1, 2, 3, 4});
  std::vector<std::atomic<int>> holders(kGpus);
  std::vector<std::uint64_t> last_fence(kGpus);  // by GPU; two holders would race for it
  std::atomic<unsigned> leases{0};
  const auto use = [&](const Lease& lease) {
    for (const Pool::Gpu& gpu : lease.gpus()) {
      EXPECT_EQ(holders[gpu.index].fetch_add(1), 0);
      EXPECT_GT(lease.fence(), std::exchange(last_fence[gpu.index], lease.fence()));
    }
    std::this_thread::yield();
    for (const Pool::Gpu& gpu : lease.gpus()) holders[gpu.index].fetch_sub(1);
    ++leases;
  };
  std::vector<std::jthread> threads;
  for (unsigned id = 0; id < kThreads; ++id) {
    threads.emplace_back([&, id] {
      for (unsigned round = 0; round < kRounds; ++round) {
        const unsigned gpus = 1 + (id + round) % 3;
        switch ((id * 7 + round) % 4) {
          case 0:
            if (const auto lease = pool.try_claim(gpus)) use(*lease);
            break;
          case 1:
            if (const auto lease = pool.claim(1ms, {}, gpus)) use(*lease);
            break;
          case 2: {
            const auto pending = pool.claim(
                [&](const std::optional<Lease>& lease) {
                  if (lease) use(*lease);
                },
                gpus);
            std::this_thread::yield();
            break;
          }
          default:
            if (const auto lease = pool.claim(kTestTimeout, {}, gpus)) use(*lease);
        }
        EXPECT_EQ(pool.snapshot_leases().size(), kGpus);
      }
    });
  }
  threads.clear();
  EXPECT_GE(leases.load(), kThreads * kRounds / 4);
  EXPECT_EQ(pool.pending_claimers(), 0U);
  EXPECT_EQ(pool.try_claim(kGpus)->gpus().size(), kGpus) << "all came back";
}

}  // namespace
