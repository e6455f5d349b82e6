// Claims that call a handler, instead of a thread that waits.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "faces/library/public_pool_for_tests.h"
#include "gpuyard/gpuyard.h"

namespace {

using namespace std::chrono_literals;
using gpuyard::kTestTimeout;
using gpuyard::Pool;
using gpuyard::pool_of;
using Lease = Pool::Lease;

TEST(Pool, CancelledClaimHandlerGetsNoneOnce) {
  RecordProperty("contract", "D5");
  const Pool pool = pool_of({0});
  auto held = pool.try_claim();
  int none = 0;
  {
    auto pending = pool.claim([&](const std::optional<Lease>& lease) { none += lease ? 100 : 1; });
    pending.cancel();
    pending.cancel();
    EXPECT_EQ(pool.pending_claimers(), 0U);
  }
  EXPECT_EQ(none, 1);
  held.reset();
  EXPECT_TRUE(pool.try_claim());
}

TEST(Pool, DroppedGrantedClaimKeepsLease) {
  const Pool pool = pool_of({0});
  std::optional<Lease> kept;
  {
    const auto pending = pool.claim([&](std::optional<Lease> lease) { kept = std::move(lease); });
  }
  EXPECT_TRUE(kept);
  EXPECT_FALSE(pool.try_claim());
}

TEST(Pool, AHandlerMayCallThePoolAndDropItsLease) {
  const Pool pool = pool_of({0});
  auto held = pool.try_claim();
  int served = 0;
  const auto drop = [&](std::optional<Lease> lease) {
    lease.reset();
    served += pool.capacity() == 1 ? 1 : 0;
  };
  const auto first = pool.claim(drop);
  const auto second = pool.claim(drop);
  held.reset();
  EXPECT_EQ(served, 2);
}

constexpr int kClaims = 100'000;

// Each handler is called because of what the one before it did.
TEST(Pool, LongHandlerChainDoesNotOverflowStack) {
  const Pool pool = pool_of({0});
  auto held = pool.try_claim();
  int served = 0;
  std::vector<Pool::PendingLease> pending;
  for (int i = 0; i < kClaims; ++i) {
    pending.push_back(pool.claim([&](const std::optional<Lease>&) { ++served; }));
  }
  held.reset();
  EXPECT_EQ(served, kClaims);
  EXPECT_TRUE(pool.try_claim());
}

TEST(Pool, HandlerMayReclaimHundredThousandTimes) {
  const Pool pool = pool_of({0});
  int served = 0;
  std::vector<Pool::PendingLease> pending;
  std::function<void(std::optional<Lease>)> again;
  again = [&](std::optional<Lease> lease) {
    lease.reset();
    if (++served < kClaims) pending.push_back(pool.claim(again));
  };
  pending.push_back(pool.claim(again));
  EXPECT_EQ(served, kClaims);
  EXPECT_TRUE(pool.try_claim());
}

TEST(Pool, LeaseDroppedInHandlerGrantsNextAfterReturn) {
  const Pool pool = pool_of({0});
  auto held = pool.try_claim();
  std::vector<std::string> order;
  const auto first = pool.claim([&](std::optional<Lease> lease) {
    lease.reset();
    order.push_back("first");
  });
  const auto second = pool.claim([&](const std::optional<Lease>&) { order.push_back("second"); });
  held.reset();
  EXPECT_EQ(order, (std::vector<std::string>{"first", "second"}));
}

// The caller may free the handler's objects once its claim is gone.
TEST(Pool, DestroyedClaimWaitsForRunningHandler) {
  const Pool pool = pool_of({0});
  auto held = pool.try_claim();
  std::atomic<bool> begun = false;
  std::atomic<bool> dropping = false;
  std::atomic<bool> over = false;
  auto captured = std::make_shared<int>(0);
  const std::weak_ptr<int> alive = captured;
  {
    std::optional<Pool::PendingLease> pending =
        pool.claim([&, kept = std::move(captured)](const std::optional<Lease>& lease) {
          EXPECT_TRUE(lease);
          begun = true;
          while (!dropping) std::this_thread::yield();
          for (int i = 0; i < 100; ++i) std::this_thread::yield();
          over = true;
        });
    const std::jthread releaser([&] { held.reset(); });
    while (!begun) std::this_thread::yield();
    dropping = true;
    pending.reset();
    EXPECT_TRUE(over);
    EXPECT_TRUE(alive.expired());
  }
  EXPECT_TRUE(pool.try_claim());
}

TEST(Pool, AHandlerMayDropItsOwnClaim) {
  const Pool pool = pool_of({0});
  auto held = pool.try_claim();
  std::optional<Pool::PendingLease> pending;
  int calls = 0;
  pending = pool.claim([&](const std::optional<Lease>&) {
    pending.reset();
    ++calls;
  });
  held.reset();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(pool.try_claim());
}

// Granted, but another handler is called first and cancels it.
TEST(Pool, CancelBeforeNotificationReturnsGpus) {
  const Pool pool = pool_of({0, 1});
  auto held = pool.try_claim(2);
  std::optional<Pool::PendingLease> second;
  std::vector<bool> results;
  const auto first = pool.claim([&](const std::optional<Lease>&) {
    second->cancel();
    EXPECT_EQ(results, std::vector<bool>{false});
  });
  second =
      pool.claim([&](const std::optional<Lease>& lease) { results.push_back(lease.has_value()); });
  held.reset();
  EXPECT_EQ(results, std::vector<bool>{false});
  EXPECT_TRUE(pool.try_claim(2)) << "both are free";
}

TEST(Pool, HandlerMayWaitForGpuOfNextHandler) {
  const Pool pool = pool_of({0});
  auto held = pool.try_claim();
  bool claimed = false;
  const auto first = pool.claim([&](std::optional<Lease> lease) {
    lease.reset();  // it is the second's now
    claimed = pool.claim(kTestTimeout).has_value();
  });
  const auto second = pool.claim([](const std::optional<Lease>&) {});
  held.reset();
  EXPECT_TRUE(claimed);
}

std::vector<std::string> logged;  // NOLINT(*-avoid-non-const-global-variables): a sink has no state

TEST(Pool, ThrowingHandlerLosesNoGpu) {
  gpuyard::set_log_sink(
      [](gpuyard::LogLevel, std::string_view line) { logged.emplace_back(line); });
  const Pool pool = pool_of({0});
  auto held = pool.try_claim();
  const auto first =
      pool.claim([](const std::optional<Lease>&) { throw std::runtime_error("no room for it"); });
  std::optional<Lease> kept;
  const auto second = pool.claim([&](std::optional<Lease> lease) {
    kept = std::move(lease);
    throw 7;  // NOLINT(hicpp-exception-baseclass): anything can be thrown
  });
  held.reset();
  gpuyard::set_log_sink(nullptr);
  ASSERT_TRUE(kept);
  EXPECT_FALSE(pool.try_claim()) << "what it kept is its own";
  kept.reset();
  EXPECT_TRUE(pool.try_claim());
  EXPECT_EQ(logged, (std::vector<std::string>{
                        "a claim handler threw: no room for it",
                        "a claim handler threw something that is not a std::exception"}));
  logged.clear();
}

TEST(Pool, HandlerThrowingOnNoneIsCalledOnce) {
  gpuyard::set_log_sink([](gpuyard::LogLevel, std::string_view) {});
  const Pool pool = pool_of({0});
  const auto held = pool.try_claim();
  int calls = 0;
  const auto fail = [&](const std::optional<Lease>&) {
    ++calls;
    throw std::runtime_error("none");
  };
  pool.claim(fail).cancel();
  EXPECT_EQ(calls, 1);
  const auto impossible = pool.claim(fail, 2);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(pool.pending_claimers(), 0U);
  gpuyard::set_log_sink(nullptr);
}

TEST(Pool, EmptyHandlerMakesNoClaim) {
  const Pool pool = pool_of({0});
  const auto pending = pool.claim(Pool::Handler());
  EXPECT_TRUE(pool.try_claim());
}

}  // namespace
