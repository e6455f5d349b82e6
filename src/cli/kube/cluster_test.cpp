// The requests of the agent, each to a real socket.
#include "cli/kube/cluster.h"

#include <memory>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"
#include "cli/kube/objects.h"
#include "io/http/tls_server_for_tests.h"

namespace gpuyard::cli::kube {
namespace {

using gpuyard::kube::Outcome;
using http::BlockingTlsServer;
using http::TestCertificate;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kPatchedNode =
    R"({"metadata":{"name":"n1","uid":"u1","resourceVersion":"8"},"spec":{},"status":{}})";
constexpr const char* kAlreadyExists =
    R"({"kind":"Status","reason":"AlreadyExists","message":"it exists"})";
constexpr const char* kConflict = R"({"kind":"Status","reason":"Conflict","message":"modified"})";
constexpr const char* kNotFound = R"({"kind":"Status","reason":"NotFound","message":"not found"})";

class KubeCluster : public testing::Test {
 protected:
  KubeCluster() {
    directory_.write("token", "abc\n");
    certificate_.write_to(directory_.in("ca.crt"));
  }

  // Each request gets this answer from now on.
  void answer(const std::string& status, const std::string& body) {
    server_ = nullptr;
    server_ = std::make_unique<BlockingTlsServer>(
        certificate_,
        BlockingTlsServer::Options{
            fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\n\r\n{}", status, body.size(), body)});
    const auto found = gpuyard::kube::api_server_of_pod(
        {"127.0.0.1", std::to_string(server_->port()), directory_.path()});
    ASSERT_TRUE(found);
    cluster_ = std::make_unique<Cluster>(gpuyard::kube::Client(*found), "n1", "GpuOk");
  }
  Outcome send(const Step& step) { return cluster_->send(step).outcome; }

  static DeviceRule rule() {
    return {.name = "gpuyard-n1-0",
            .label = "n1",
            .owner = Owner{"Node", "n1", "u1"},
            .driver = "d",
            .pool = "n1",
            .device = "gpu-0",
            .key = "gpuyard.io/sick",
            .value = "xid-fatal",
            .effect = "NoSchedule"};
  }

  ScratchDirectory directory_;
  const TestCertificate certificate_{"IP:127.0.0.1"};
  std::unique_ptr<BlockingTlsServer> server_;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(KubeCluster, ConditionIsAStrategicMergeOfTheStatus) {
  answer("200 OK", kPatchedNode);
  EXPECT_EQ(send(WriteCondition{"GpuOk", {ConditionStatus::no, "XidFatal", "why"}, {}, {}}),
            Outcome::ok);
  EXPECT_THAT(server_->request(), StartsWith("PATCH /api/v1/nodes/n1/status HTTP/1.1\r\n"));
  EXPECT_THAT(server_->request(), HasSubstr("application/strategic-merge-patch+json"));
  // The answer has the version for the next patch.
  ASSERT_TRUE(cluster_->seen().node);
  EXPECT_EQ(cluster_->seen().node->resource_version, "8");
}

TEST_F(KubeCluster, TaintsAreAMergePatchOfOneVersion) {
  answer("409 Conflict", kConflict);
  EXPECT_EQ(send(PatchTaints{"7", {R"({"key":"a"})"}, false}), Outcome::conflict);
  EXPECT_THAT(server_->request(), StartsWith("PATCH /api/v1/nodes/n1 HTTP/1.1\r\n"));
  EXPECT_THAT(server_->request(), HasSubstr("application/merge-patch+json"));
  EXPECT_THAT(server_->request(), HasSubstr(R"("resourceVersion":"7")"));
  EXPECT_THAT(server_->request(), HasSubstr(R"("taints":[{"key":"a"}])"));
}

TEST_F(KubeCluster, CreatedRuleIsSeen) {
  answer("201 Created", R"({"metadata":{"name":"gpuyard-n1-0","uid":"r1"},"spec":{}})");
  EXPECT_EQ(send(CreateRule{rule()}), Outcome::ok);
  ASSERT_EQ(cluster_->seen().rules.size(), 1U);
  EXPECT_EQ(cluster_->seen().rules[0].uid, "r1");
}

TEST_F(KubeCluster, RuleThatExistsIsReadByItsName) {
  answer("409 Conflict", kAlreadyExists);
  EXPECT_EQ(send(CreateRule{rule()}), Outcome::already_exists);
  EXPECT_TRUE(cluster_->seen().rules.empty());
}

TEST_F(KubeCluster, RuleIsDeletedByItsUid) {
  answer("200 OK", R"({"kind":"Status","status":"Success"})");
  EXPECT_EQ(send(DeleteRule{"gpuyard-n1-0", "r1"}), Outcome::ok);
  EXPECT_THAT(server_->request(), HasSubstr("/devicetaintrules/gpuyard-n1-0 HTTP/1.1\r\n"));
  EXPECT_THAT(server_->request(), HasSubstr(R"("preconditions":{"uid":"r1"})"));
}

TEST_F(KubeCluster, RuleThatIsGoneIsDeleted) {
  answer("404 Not Found", kNotFound);
  EXPECT_EQ(send(DeleteRule{"gpuyard-n1-0", "r1"}), Outcome::ok);
}

TEST_F(KubeCluster, EventIsCreatedInTheNamespaceOfNodes) {
  answer("201 Created", R"({"kind":"Event"})");
  const NodeEvent event{0xabc, "u1", {EventKind::bad, "GPU-a", "xid-fatal", "XidFatal", "why"}, {}};
  EXPECT_EQ(cluster_->write_event(event).outcome, Outcome::ok);
  EXPECT_THAT(server_->request(),
              StartsWith("POST /api/v1/namespaces/default/events HTTP/1.1\r\n"));
  EXPECT_THAT(server_->request(), HasSubstr(event_object(event, "n1")));
}

TEST_F(KubeCluster, MalformedAnswersAreNoSuccess) {
  answer("200 OK", "{}");
  EXPECT_EQ(send(WriteCondition{"GpuOk", {}, {}, {}}), Outcome::malformed);
  EXPECT_EQ(send(CreateRule{rule()}), Outcome::malformed);
  EXPECT_EQ(cluster_->read().outcome, Outcome::malformed);
}

// Neither version of the group is served: the Node alone is read.
TEST_F(KubeCluster, ClusterWithoutDeviceApiHasNoNodeYet) {
  answer("404 Not Found", kNotFound);
  EXPECT_EQ(cluster_->read().outcome, Outcome::ok);
  EXPECT_EQ(cluster_->seen().api, ResourceApi::none);
  EXPECT_FALSE(cluster_->seen().node);
}

TEST_F(KubeCluster, ForbiddenReadKeepsLastState) {
  answer("403 Forbidden", R"({"kind":"Status","reason":"Forbidden","message":"no"})");
  EXPECT_EQ(cluster_->read().outcome, Outcome::forbidden);
  EXPECT_FALSE(cluster_->seen().node);
}

}  // namespace
}  // namespace gpuyard::cli::kube
