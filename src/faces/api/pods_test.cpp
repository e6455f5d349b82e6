#include "faces/protocol/pods.h"

#include <gmock/gmock.h>

#include "faces/api/routes_for_tests.h"

namespace gpuyard::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr const char* kPod = "/api/gpu/pods/default/trainer.v1-0";
constexpr const char* kList = "/api/gpu/pods";
constexpr const char* kPlugin = "/api/gpu/kubernetes/plugin";

class Pods : public LeaseRoutes {
 protected:
  Calls put(const std::string& body, const char* path = kPod) {
    return ask(http::Method::put, path, body, local_user(0));
  }
  protocol::PodStarted started(const Calls& call) {
    auto read = json::from_json<protocol::PodStarted>(call->text());
    EXPECT_TRUE(read) << call->text();
    return read ? *read : protocol::PodStarted{};
  }
  std::vector<protocol::Pod> list() {
    const auto call = get(kList);
    auto read = json::from_json<protocol::Pods>(call->text());
    EXPECT_TRUE(read) << call->text();
    return read ? read->pods : std::vector<protocol::Pod>{};
  }
};

TEST_F(Pods, OnlyRootReportsPods) {
  for (const http::Peer& peer : {local_user(kAlice), over_tcp()}) {
    EXPECT_EQ(ask(http::Method::put, kPod, R"({"uuids":["GPU-0"]})", peer)->status(), 403);
    EXPECT_EQ(del(kPod, peer)->status(), 403);
  }
  EXPECT_FALSE(world_.leases->gpus().allocator());
  EXPECT_THAT(list(), IsEmpty());
}

TEST_F(Pods, APodIsShownUntilItIsGone) {
  const auto begun = started(put(R"({"uuids":["GPU-1","GPU-0"],"note":"trainer, sidecar"})"));
  EXPECT_THAT(begun.lease.id, StartsWith("pod-trainer-v1-0-"));
  EXPECT_EQ(begun.lease.binding, lease::Binding::job);
  EXPECT_EQ(begun.lease.user, "(pods)");
  EXPECT_EQ(begun.lease.pod, "default/trainer.v1-0");
  EXPECT_EQ(begun.lease.note, "trainer, sidecar");
  EXPECT_THAT(begun.unknown, IsEmpty());
  EXPECT_EQ(world_.leases->gpus().allocator(), lease::Allocator::kubernetes);

  const auto pods = list();
  ASSERT_EQ(pods.size(), 1U);
  EXPECT_EQ(pods[0].pod, "default/trainer.v1-0");
  EXPECT_EQ(pods[0].lease, begun.lease.id);
  EXPECT_THAT(pods[0].gpus, ElementsAre(0, 1));
  EXPECT_THAT(pods[0].uuids, ElementsAre("GPU-0", "GPU-1"));
  EXPECT_FALSE(pods[0].draining_s);

  EXPECT_EQ(del(kPod, local_user(0))->status(), 200);
  pass(std::chrono::seconds(1));
  EXPECT_THAT(list(), IsEmpty());
}

TEST_F(Pods, RepeatedReportsReturnTheSameLease) {
  const std::string id = started(put(R"({"uuids":["GPU-0"]})")).lease.id;
  EXPECT_EQ(started(put(R"({"uuids":["GPU-0","GPU-0"]})")).lease.id, id);
  EXPECT_EQ(del(kPod, local_user(0))->lease().id, id);
  EXPECT_EQ(del(kPod, local_user(0))->lease().id, id) << "while it drains";
  pass(std::chrono::seconds(1));
  const auto again = del(kPod, local_user(0));
  EXPECT_EQ(again->status(), 200);
  EXPECT_EQ(again->lease().state, lease::LeaseState::ended);
  EXPECT_EQ(del("/api/gpu/pods/default/another", local_user(0))->status(), 404);
}

TEST_F(Pods, NoLeaseEndsWhileAProcessIsOnItsGpus) {
  const std::string id = started(put(R"({"uuids":["GPU-0"]})")).lease.id;
  process(66, kBob);
  world_.observer.running.at(66).gpus = {"GPU-0"};
  EXPECT_EQ(del(kPod, local_user(0))->status(), 200);
  pass(std::chrono::minutes(1));
  const auto pods = list();
  ASSERT_EQ(pods.size(), 1U);
  EXPECT_EQ(pods[0].state, lease::LeaseState::draining);
  EXPECT_THAT(pods[0].left, HasSubstr("PID 66"));
  EXPECT_TRUE(pods[0].draining_s);
  EXPECT_EQ(del(kPod, local_user(0))->lease().state, lease::LeaseState::draining);
  world_.observer.stop(66);
  pass(std::chrono::seconds(2));
  EXPECT_THAT(list(), IsEmpty());
  EXPECT_EQ(world_.leases->find(id)->end_reason, lease::EndReason::released);
}

TEST_F(Pods, UnknownUuidsAreReturned) {
  EXPECT_THAT(started(put(R"({"uuids":["GPU-0","GPU-9"]})")).unknown, ElementsAre("GPU-9"));
  const auto none = put(R"({"uuids":["MIG-1"]})", "/api/gpu/pods/default/other");
  EXPECT_EQ(none->status(), 404);
  EXPECT_THAT(none->message(), HasSubstr("MIG-1"));
  EXPECT_EQ(list().size(), 1U);
}

TEST_F(Pods, MalformedReportsAreRefused) {
  EXPECT_EQ(put("{}")->status(), 400);
  EXPECT_EQ(put(R"({"uuids":[]})")->status(), 400);
  EXPECT_EQ(put(R"({"uuids":["GPU-0"]})", "/api/gpu/pods/Default/trainer")->status(), 400);
  EXPECT_EQ(put(R"({"uuids":["GPU-0"]})", "/api/gpu/pods/default/-trainer")->status(), 400);
  EXPECT_EQ(del("/api/gpu/pods/default/a_b", local_user(0))->status(), 400);
  EXPECT_FALSE(world_.leases->gpus().allocator());
}

TEST_F(Pods, ReportOfTheDevicePluginCountsUntilItIsOld) {
  const auto hides = [&](std::string_view uuid) {
    return context_.pods.plugin_report.hides(uuid, loop_.now());
  };
  EXPECT_EQ(hides("GPU-0"), std::nullopt);
  const auto answer = put(R"({"hidden":["GPU-0","GPU-9"]})", kPlugin);
  EXPECT_EQ(answer->status(), 200) << answer->text();
  EXPECT_THAT(answer->text(), HasSubstr(R"("hidden":["GPU-0","GPU-9"])"));
  EXPECT_EQ(hides("GPU-0"), true);
  EXPECT_EQ(hides("GPU-1"), false);
  EXPECT_FALSE(world_.leases->gpus().allocator()) << "no pod was reported";
  EXPECT_EQ(put(R"({"hidden":[]})", kPlugin)->status(), 200);
  EXPECT_EQ(hides("GPU-0"), false);
  pass(andon::PluginReport::kMaxAge);
  EXPECT_EQ(hides("GPU-0"), std::nullopt);
}

TEST_F(Pods, OnlyRootReportsTheDevicePlugin) {
  for (const http::Peer& peer : {local_user(kAlice), over_tcp()}) {
    EXPECT_EQ(ask(http::Method::put, kPlugin, R"({"hidden":["GPU-0"]})", peer)->status(), 403);
  }
  for (const char* const body : {"", "{}", R"({"hidden":[""]})", R"({"hidden":"GPU-0"})"}) {
    EXPECT_EQ(put(body, kPlugin)->status(), 400) << body;
  }
  EXPECT_EQ(context_.pods.plugin_report.hides("GPU-0", loop_.now()), std::nullopt);
}

TEST_F(Pods, SlurmsHealthCheckDoesNotSeeThem) {
  ASSERT_EQ(put(R"({"uuids":["GPU-0"]})")->status(), 200);
  EXPECT_THAT(get("/api/gpu/slurm")->text(), HasSubstr(R"("jobs":[])"));
}

}  // namespace
}  // namespace gpuyard::api
