#include "faces/fleet/fan_out.h"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <latch>

#include <gmock/gmock.h>

#include "faces/fleet/fleet_poller.h"

namespace gpuyard::fleet {
namespace {

using testing::HasSubstr;
using testing::Le;

std::vector<Host> hosts(std::size_t count) {
  std::vector<Host> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back({"n" + std::to_string(i), "/nowhere/" + std::to_string(i)});
  }
  return all;
}

TEST(WorkerPool, EachTaskRunsOnceWithinConcurrencyLimit) {
  constexpr std::size_t kPieces = 500;
  std::vector<std::atomic<int>> done(kPieces);
  std::atomic<int> now = 0;
  std::atomic<int> most = 0;
  WorkerPool pool(kPieces, [&](std::size_t i) {
    const int here = ++now;
    for (int seen = most; seen < here && !most.compare_exchange_weak(seen, here);) {
    }
    ++done[i];
    --now;
  });
  pool.finish();
  EXPECT_EQ(pool.completed_count(), kPieces);
  for (const auto& one : done) EXPECT_EQ(one, 1);
  EXPECT_THAT(most.load(), Le(static_cast<int>(kMaxWorkers)));
}

TEST(WorkerPool, RingsWhenAPieceIsDone) {
  WorkerPool pool(1, [](std::size_t) {});
  pool.finish();
  pollfd entry{pool.descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 1);
  EXPECT_EQ(pool.completed_count(), 1U);
  EXPECT_EQ(::poll(&entry, 1, 0), 0);
}

TEST(WorkerPool, WithoutWorkIsDone) {
  EXPECT_EQ(WorkerPool(0, [](std::size_t) {}).completed_count(), 0U);
}

TEST(FanOut, SilentHostDoesNotDelayOtherReplies) {
  std::latch came(1);
  std::latch may_go(1);
  FanOut<int> survey(hosts(2), {}, [&](const http::Endpoint& daemon) -> Result<int> {
    if (daemon.path == "/nowhere/0") {
      may_go.wait();
    } else {
      came.count_down();
    }
    return 7;
  });
  came.wait();
  while (survey.pool().completed_count() < 1) std::this_thread::yield();
  const auto replies = survey.replies();
  EXPECT_EQ(replies[1].problem.has_value(), false);
  EXPECT_EQ(replies[1].answer, 7);
  ASSERT_TRUE(replies[0].problem);
  EXPECT_EQ(replies[0].problem->code, Errc::timed_out);
  may_go.count_down();
  survey.pool().finish();
  EXPECT_EQ(survey.replies()[0].answer, 7);
}

TEST(FanOut, NamesTheProblemOfEachHost) {
  FanOut<protocol::Brief> survey(hosts(3), {},
                                 [](const auto& daemon) { return fetch_brief(daemon, {}); });
  survey.pool().finish();
  for (const auto& reply : survey.replies()) {
    ASSERT_TRUE(reply.problem);
    EXPECT_EQ(reply.problem->code, Errc::unavailable);
    EXPECT_THAT(reply.problem->message, HasSubstr(reply.host.url));
  }
}

TEST(WayTo, DiscoveredHostGetsNoEnvironmentToken) {
  FanOutOptions options;
  options.credentials.token_file = "/nowhere/{}";
  EXPECT_TRUE(endpoint_of({"n1", "https://n1:9411", true}, options));
  EXPECT_FALSE(endpoint_of({"n1", "https://n1:9411", false}, options))
      << "whose file would be read";
}

TEST(WayTo, SaysWhyTheEnvironmentsTokenWasNotSent) {
  FanOutOptions options;
  options.credentials.token = "gpy_x";  // for one daemon: it is not even parsed
  const auto endpoint = endpoint_of({"n1", "https://n1:9411"}, options);
  ASSERT_TRUE(endpoint) << endpoint.error().message;
  EXPECT_EQ(endpoint->tls->token, "");
  EXPECT_THAT(add_token_hint({Errc::denied, "token required"}, *endpoint, options).text(),
              HasSubstr("GPUYARD_TOKEN_FILE"));
  EXPECT_EQ(add_token_hint({Errc::denied, "token required"}, *endpoint, {}).text(),
            "token required");
}

TEST(FleetPoller, EachHostIsPolledAndErrorsKept) {
  constexpr std::size_t kHosts = 100;  // more than there are threads
  FleetPoller watch(hosts(kHosts), {});
  const auto have_all_failed = [&] {
    return std::ranges::all_of(watch.statuses(), [](const HostStatus& word) {
      return word.reply.problem && word.reply.problem->code == Errc::unavailable;
    });
  };
  const TimePoint give_up = BootClock::now() + std::chrono::seconds(30);
  while (!have_all_failed() && BootClock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(have_all_failed());
  EXPECT_FALSE(watch.statuses().front().replied_at);
}

TEST(FleetPoller, EmptyHostListEndsAtOnce) {
  FleetPoller watch({}, {});
  EXPECT_TRUE(watch.statuses().empty());
}

}  // namespace
}  // namespace gpuyard::fleet
