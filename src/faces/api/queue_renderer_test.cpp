#include "faces/api/routes_for_tests.h"

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "faces/api/queue_renderer.h"

namespace gpuyard::api {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

class QueueRoutes : public LeaseRoutes {
 protected:
  protocol::Queue queue(http::Peer peer = over_tcp()) {
    auto read = json::from_json<protocol::Queue>(get("/api/gpu/queue", std::move(peer))->text());
    EXPECT_TRUE(read) << read.error().message;
    return read ? *std::move(read) : protocol::Queue{};
  }
  std::string text_of_first(http::Peer peer = over_tcp()) {
    const auto now = queue(std::move(peer));
    return now.waiting.empty() || !now.waiting[0].place ? "" : now.waiting[0].place->text;
  }
  Calls cordon(const std::string& gpus, http::Peer peer) {
    return ask(http::Method::put, "/api/gpu/manage/" + gpus + "/cordon",
               R"({"reason":"its fan is replaced"})", std::move(peer));
  }
};

TEST_F(QueueRoutes, LoadReportMatchesContract) {
  RecordProperty("contract", "D10");
  EXPECT_EQ(get("/api/gpu/load")->text(),
            R"({"gpu_pool":[{"index":0,"name":"NVIDIA H100","vendor":"NVIDIA","leased":false},)"
            R"({"index":1,"name":"NVIDIA H100","vendor":"NVIDIA","leased":false}],)"
            R"("pending_claimers":0,"capacity":2})");
  held(R"({"id":"one-of-many-leases"})", process(10));
  const auto waits = claim(R"({"gpus":2})", process(11, kBob));
  const auto load = json::from_json<protocol::Load>(get("/api/gpu/load")->text());
  ASSERT_TRUE(load);
  EXPECT_TRUE(load->gpu_pool.at(0).leased);
  EXPECT_FALSE(load->gpu_pool.at(1).leased);
  EXPECT_EQ(load->pending_claimers, 1);
  EXPECT_EQ(load->capacity, 2);
}

TEST_F(QueueRoutes, HeldLeasesAreListedInGrantOrder) {
  held(R"({"id":"zebra-of-many-leases"})", process(10));
  held(R"({"id":"apple-of-many-leases"})", process(11, kBob));
  const auto all = json::from_json<protocol::Leases>(get(kLeases)->text());
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->leases.size(), 2U);
  EXPECT_EQ(all->leases[0].id, "zebra-of-many-leases");
  EXPECT_EQ(all->leases[1].id, "apple-of-many-leases");
  EXPECT_EQ(all->leases[1].user, std::nullopt);  // the name is not known: the number is
  EXPECT_EQ(all->leases[1].uid, kBob);
}

TEST_F(QueueRoutes, WaitingClaimsAreListedInOrderWithReason) {
  held(R"({"id":"a-of-many-leases","gpus":2})", process(10));
  const auto first = claim(R"({"id":"z-first-of-many-leases","gpus":2})", process(11, kBob));
  const auto second = claim(R"({"id":"b-second-of-many-leases"})", process(12, kBob));
  const auto now = queue();
  EXPECT_EQ(now.pending_claimers, 2);
  ASSERT_EQ(now.waiting.size(), 2U);
  EXPECT_EQ(now.waiting[0].id, "z-first-of-many-leases");
  EXPECT_EQ(now.waiting[1].id, "b-second-of-many-leases");
  EXPECT_EQ(now.waiting[1].place->position, 2);
  EXPECT_EQ(now.waiting[0].place->text,
            "2 of 2 matching GPUs are needed; leased: GPU 0, GPU 1 (alice)");
}

TEST_F(QueueRoutes, CordonNeedsControlScopeAndWithholdsGpu) {
  EXPECT_EQ(cordon("1", process(10))->status(), 403);
  auto controller = process(10);
  controller.groups = {600};
  const auto done = cordon("1", controller);
  ASSERT_EQ(done->status(), 200) << done->text();
  const auto view = json::from_json<protocol::CordonResult>(done->text());
  ASSERT_TRUE(view) << view.error().message;
  ASSERT_EQ(view->withheld.size(), 1U);
  EXPECT_EQ(view->withheld[0].index, 1U);
  EXPECT_EQ(view->withheld[0].why, "cordoned");
  EXPECT_EQ(view->withheld[0].by, "uid 1000");
  EXPECT_THAT(view->withheld[0].text, HasSubstr("its fan is replaced"));
  EXPECT_TRUE(view->withheld[0].since);

  const auto waits = claim(R"({"gpus":2})", process(11, kBob));
  EXPECT_THAT(text_of_first(), HasSubstr("GPU 1: cordoned by alice: its fan is replaced "
                                         "(`gpuyard uncordon 1`)"));
  EXPECT_EQ(ask(http::Method::del, "/api/gpu/manage/all/cordon", "", controller)->status(), 200);
  EXPECT_EQ(waits->lease().state, lease::LeaseState::held);
  EXPECT_TRUE(queue().withheld.empty());
}

TEST_F(QueueRoutes, CordonNeedsPresentGpusAndReason) {
  EXPECT_EQ(cordon("7", process(12, 0))->status(), 404);
  EXPECT_EQ(ask(http::Method::put, "/api/gpu/manage/1/cordon", "{}", process(12, 0))->status(),
            400);
  const std::string long_reason = "{\"reason\":\"" + std::string(201, 'x') + "\"}";
  for (const std::string& body : {std::string(R"({"reason":""})"), long_reason}) {
    EXPECT_EQ(ask(http::Method::put, "/api/gpu/manage/1/cordon", body, process(12, 0))->status(),
              400);
  }
}

TEST_F(QueueRoutes, UnleasedProcessHasResolvingCommand) {
  process(20, kBob);
  world_.observer.running.at(20).gpus = {"GPU-1"};
  world_.leases->on_processes();
  world_.loop.run_posted();
  const auto waits = claim(R"({"gpus":2})", process(10));
  EXPECT_EQ(queue().waiting.at(0).place->why, "squatted");
  EXPECT_THAT(text_of_first(process(21, kBob)),
              HasSubstr("GPU 1 by PID 20 (python, UID 1001): to lease its GPU, run `gpuyard lease "
                        "adopt --pid 20`"));
  EXPECT_THAT(text_of_first(process(10)), HasSubstr("`sudo -u '#1001' gpuyard lease adopt"));
}

TEST_F(QueueRoutes, InvisibleProcessIsNamedByPid) {
  process(20, kBob);
  world_.observer.running.at(20).gpus = {"GPU-1"};
  world_.observer.running.at(20).visible = false;
  world_.leases->on_processes();
  world_.loop.run_posted();
  const auto waits = claim(R"({"gpus":2})", process(10));
  EXPECT_TRUE(queue().squatters.empty());
  EXPECT_EQ(queue().withheld.at(0).why, "unknown_process");
  EXPECT_THAT(text_of_first(), HasSubstr("PID 20, which is not visible from here"));
}

TEST_F(QueueRoutes, TooLittleMemoryIsSaid) {
  world_.fleet[0].free_bytes = world_.fleet[1].free_bytes = std::int64_t{75} << 30;
  world_.leases->on_gpus(world_.fleet);
  const auto waits = claim(R"({"min_free_bytes":83751862272})", process(10));
  EXPECT_EQ(queue().waiting.at(0).place->why, "memory");
  EXPECT_THAT(text_of_first(), HasSubstr("78.0 GiB"));
}

TEST_F(QueueRoutes, ReservedFreeGpusHaveWaitReason) {
  held(R"({"id":"a-of-many-leases"})", process(10));
  const auto both = claim(R"({"gpus":2,"id":"both-of-many-leases"})", process(11, kBob));
  for (std::uint32_t pid = 100; pid < 100 + lease::Scheduler::kMaxOvertakes; ++pid) {
    const auto passes = claim(R"({"max_time_s":10})", process(pid, kBob));
    ASSERT_EQ(passes->lease().state, lease::LeaseState::held);
    del("/api/gpu/leases/" + passes->lease().id, process(pid, kBob));
    pass(seconds(1));
  }
  const auto late = claim(R"({"id":"late-of-many-leases"})", process(12, kBob));
  const auto now = queue();
  ASSERT_EQ(now.waiting.size(), 2U);
  EXPECT_EQ(now.waiting[1].place->why, "behind_earlier");
  EXPECT_THAT(now.waiting[1].place->text, HasSubstr("reserved for an earlier claim"));
}

// More claims wait than are rendered for each request.
class LongQueue : public QueueRoutes {
 protected:
  static constexpr std::uint32_t kWaitingClaims = QueueRenderer::kMaxUncachedClaims + 6;

  LongQueue() {
    held(R"({"id":"who-holds-them-all","gpus":2})", process(10));
    for (std::uint32_t pid = 100; pid < 100 + kWaitingClaims; ++pid) {
      claim(R"({"note":"secret","binding":"detached","ttl_s":600,"answer_within_s":0})",
            process(pid, pid % 2 == 0 ? kAlice : kBob));
    }
  }
};

TEST_F(LongQueue, NotesAreShownToOwnerAndRootOnly) {
  constexpr std::uint32_t kStranger = 1002;
  const std::vector<std::pair<http::Peer, std::uint32_t>> viewers = {
      {process(20, kStranger), 0},
      {over_tcp(), 0},
      {process(21, 0), kWaitingClaims},
      {process(22, kAlice), kWaitingClaims / 2},
      {process(23, kBob), kWaitingClaims / 2},
      {process(24, kStranger), 0}};
  for (const auto& [viewer, notes] : viewers) {
    const auto now = queue(viewer);
    ASSERT_EQ(now.waiting.size(), kWaitingClaims);
    EXPECT_EQ(now.pending_claimers, kWaitingClaims);
    EXPECT_EQ(std::ranges::count(now.waiting, std::string("secret"), &protocol::Lease::note),
              notes);
    for (auto one : {now.waiting[0], now.waiting[1], now.waiting[kWaitingClaims - 1]}) {
      EXPECT_TRUE(std::exchange(one.place, std::nullopt)) << one.id;
      auto alone = get("/api/gpu/leases/" + one.id, viewer)->lease();
      alone.place.reset();
      EXPECT_EQ(json::to_json(one), json::to_json(alone));
    }
  }
}

TEST_F(LongQueue, ResponseIsCachedBriefly) {
  const std::string first = get("/api/gpu/queue")->text();
  del("/api/gpu/leases/" + queue().waiting.back().id, process(20, 0));
  EXPECT_EQ(get("/api/gpu/queue")->text(), first);
  pass(QueueRenderer::kPageLifetime);
  EXPECT_EQ(queue().waiting.size(), kWaitingClaims - 1);
}

}  // namespace
}  // namespace gpuyard::api
