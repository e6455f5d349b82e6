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

TEST(Crew, EachTaskRunsOnceWithinConcurrencyLimit) {
  constexpr std::size_t kPieces = 500;
  std::vector<std::atomic<int>> done(kPieces);
  std::atomic<int> now = 0;
  std::atomic<int> most = 0;
  Crew crew(kPieces, [&](std::size_t i) {
    const int here = ++now;
    for (int seen = most; seen < here && !most.compare_exchange_weak(seen, here);) {
    }
    ++done[i];
    --now;
  });
  crew.finish();
  EXPECT_EQ(crew.done(), kPieces);
  for (const auto& one : done) EXPECT_EQ(one, 1);
  EXPECT_THAT(most.load(), Le(static_cast<int>(kAtOnce)));
}

TEST(Crew, RingsWhenAPieceIsDone) {
  Crew crew(1, [](std::size_t) {});
  crew.finish();
  pollfd entry{crew.bell(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 1);
  EXPECT_EQ(crew.done(), 1U);
  EXPECT_EQ(::poll(&entry, 1, 0), 0);
}

TEST(Crew, WithoutWorkIsDone) {
  EXPECT_EQ(Crew(0, [](std::size_t) {}).done(), 0U);
}

TEST(Survey, SilentHostDoesNotDelayOtherReplies) {
  std::latch came(1);
  std::latch may_go(1);
  Survey<int> survey(hosts(2), {}, [&](const http::Endpoint& daemon) -> Result<int> {
    if (daemon.path == "/nowhere/0") {
      may_go.wait();
    } else {
      came.count_down();
    }
    return 7;
  });
  came.wait();
  while (survey.crew().done() < 1) std::this_thread::yield();
  const auto heard = survey.heard();
  EXPECT_EQ(heard[1].problem.has_value(), false);
  EXPECT_EQ(heard[1].answer, 7);
  ASSERT_TRUE(heard[0].problem);
  EXPECT_EQ(heard[0].problem->code, Errc::timed_out);
  may_go.count_down();
  survey.crew().finish();
  EXPECT_EQ(survey.heard()[0].answer, 7);
}

TEST(Survey, NamesTheProblemOfEachHost) {
  Survey<protocol::Brief> survey(hosts(3), {},
                                 [](const auto& daemon) { return ask_brief(daemon, {}); });
  survey.crew().finish();
  for (const auto& heard : survey.heard()) {
    ASSERT_TRUE(heard.problem);
    EXPECT_EQ(heard.problem->code, Errc::unavailable);
    EXPECT_THAT(heard.problem->message, HasSubstr(heard.host.url));
  }
}

TEST(WayTo, DiscoveredHostGetsNoEnvironmentToken) {
  Manner manner;
  manner.keys.token_file = "/nowhere/{}";
  EXPECT_TRUE(way_to({"n1", "https://n1:9411", true}, manner));
  EXPECT_FALSE(way_to({"n1", "https://n1:9411", false}, manner)) << "whose file would be read";
}

TEST(WayTo, SaysWhyTheEnvironmentsTokenWasNotSent) {
  Manner manner;
  manner.keys.token = "gpy_x";  // for one daemon: it is not even parsed
  const auto way = way_to({"n1", "https://n1:9411"}, manner);
  ASSERT_TRUE(way) << way.error().message;
  EXPECT_EQ(way->tls->token, "");
  EXPECT_THAT(with_audience({Errc::denied, "token required"}, *way, manner).text(),
              HasSubstr("GPUYARD_TOKEN_FILE"));
  EXPECT_EQ(with_audience({Errc::denied, "token required"}, *way, {}).text(), "token required");
}

TEST(Watch, EachHostIsPolledAndErrorsKept) {
  constexpr std::size_t kHosts = 100;  // more than there are threads
  Watch watch(hosts(kHosts), {});
  const auto all_asked = [&] {
    return std::ranges::all_of(watch.words(), [](const HostStatus& word) {
      return word.heard.problem && word.heard.problem->code == Errc::unavailable;
    });
  };
  const TimePoint give_up = BootClock::now() + std::chrono::seconds(30);
  while (!all_asked() && BootClock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(all_asked());
  EXPECT_FALSE(watch.words().front().came);
}

TEST(Watch, EmptyHostListEndsAtOnce) {
  Watch watch({}, {});
  EXPECT_TRUE(watch.words().empty());
}

}  // namespace
}  // namespace gpuyard::fleet
