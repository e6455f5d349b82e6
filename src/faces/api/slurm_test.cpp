#include "faces/protocol/slurm.h"

#include <gmock/gmock.h>

#include "faces/api/routes_for_tests.h"

namespace gpuyard::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kJob = "/api/gpu/slurm/jobs/17";
constexpr const char* kCheck = "/api/gpu/slurm/check";

class Slurm : public LeaseRoutes {
 protected:
  protocol::SlurmNode node(const Calls& call) {
    auto read = json::from_json<protocol::SlurmNode>(call->text());
    EXPECT_TRUE(read) << call->text();
    return read ? *read : protocol::SlurmNode{};
  }
  void begin(std::vector<DeviceId> gpus) {
    world_.leases->begin_job({"slurm-17", kAlice, std::move(gpus), "train.sh"},
                             [](const auto& lease) { EXPECT_TRUE(lease); });
    world_.loop.run_posted();
  }
};

TEST_F(Slurm, OnlyRootReportsJobs) {
  for (const http::Peer& peer : {local_user(kAlice), over_tcp()}) {
    EXPECT_EQ(ask(http::Method::put, kJob, R"({"uid":1000,"minors":[0]})", peer)->status(), 403);
    EXPECT_EQ(del(kJob, peer)->status(), 403);
    EXPECT_EQ(post(kCheck, "{}", peer)->status(), 403);
  }
  EXPECT_FALSE(world_.leases->gpus().allocator());
}

TEST_F(Slurm, UnknownDeviceNumbersReturnUnavailable) {
  const auto early = ask(http::Method::put, kJob, R"({"uid":1000,"minors":[0]})", local_user(0));
  EXPECT_EQ(early->status(), 503);
  EXPECT_THAT(early->message(), HasSubstr("not all device file numbers of the GPUs are known yet"));
  for (const char* path : {"/api/gpu/slurm/jobs/x", "/api/gpu/slurm/jobs/17-2"}) {
    EXPECT_EQ(ask(http::Method::put, path, R"({"uid":0,"minors":[0]})", local_user(0))->status(),
              404);
  }
}

TEST_F(Slurm, AJobIsShownUntilItIsOver) {
  begin({"GPU-0", "GPU-1"});
  const auto now = node(get("/api/gpu/slurm"));
  EXPECT_TRUE(now.observes);
  ASSERT_EQ(now.jobs.size(), 1U);
  EXPECT_EQ(now.jobs[0].job, "17");
  EXPECT_EQ(now.jobs[0].user, "alice");
  EXPECT_THAT(now.jobs[0].gpus, ElementsAre(0, 1));
  EXPECT_EQ(get(kJob)->lease().state, lease::LeaseState::held);
  EXPECT_EQ(del(kJob, local_user(0))->status(), 200);
  pass(std::chrono::seconds(1));
  EXPECT_TRUE(node(get("/api/gpu/slurm")).jobs.empty());
  EXPECT_EQ(get(kJob)->lease().state, lease::LeaseState::ended);
  EXPECT_EQ(del(kJob, local_user(0))->status(), 404);
  EXPECT_EQ(get("/api/gpu/slurm/jobs/18")->status(), 404);
}

TEST_F(Slurm, PodsAreNoJobsOfSlurm) {
  world_.leases->begin_job(
      {"default/trainer", lease::kPodsUid, {"GPU-0"}, "", lease::Allocator::kubernetes},
      [](const auto& lease) { EXPECT_TRUE(lease); });
  world_.loop.run_posted();
  const auto now = node(get("/api/gpu/slurm"));
  EXPECT_FALSE(now.observes) << "Kubernetes allocates the GPUs";
  EXPECT_TRUE(now.jobs.empty());
}

TEST_F(Slurm, HookTroublePersistsUntilCleared) {
  EXPECT_EQ(node(post(kCheck, R"({"trouble":"munge is down"})", local_user(0))).trouble,
            "munge is down");
  EXPECT_EQ(node(post(kCheck, "{}", local_user(0))).trouble, "munge is down");
  EXPECT_TRUE(node(get("/api/gpu/slurm")).observes);
  EXPECT_EQ(node(post(kCheck, R"({"trouble":""})", local_user(0))).trouble, "");
  const std::string long_text(201, 'x');
  EXPECT_EQ(post(kCheck, R"({"trouble":")" + long_text + "\"}", local_user(0))->status(), 400);
}

}  // namespace
}  // namespace gpuyard::api
