// The option's value, and the requests of a restart of the device plugin, each to a real socket.
#include "cli/kube/plugin_pods.h"

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"
#include "io/http/tls_server_for_tests.h"

namespace gpuyard::cli::kube {
namespace {

using gpuyard::kube::Outcome;
using testing::HasSubstr;
using testing::StartsWith;

TEST(KubePluginLabel, NamespaceKeyAndValueAreRead) {
  const auto label = parse_plugin_label("gpu-operator/app=nvidia-device-plugin-daemonset");
  ASSERT_TRUE(label) << label.error().text();
  EXPECT_EQ(*label, (PluginLabel{"gpu-operator", "app", "nvidia-device-plugin-daemonset"}));
  EXPECT_EQ(label->selector(), "app=nvidia-device-plugin-daemonset");
}

TEST(KubePluginLabel, KeyMayHaveAPrefix) {
  const auto label = parse_plugin_label("nvidia/app.kubernetes.io/name=nvidia-device-plugin");
  ASSERT_TRUE(label) << label.error().text();
  EXPECT_EQ(*label, (PluginLabel{"nvidia", "app.kubernetes.io/name", "nvidia-device-plugin"}));
}

TEST(KubePluginLabel, WrongPartIsNamed) {
  struct Row {
    std::string text;
    const char* cause;
  };
  const std::vector<Row> rows = {
      {"", "\"\" is not a valid namespace"},
      {"app=plugin", "\"app=plugin\" is not a valid namespace"},
      {"/app=plugin", "\"\" is not a valid namespace"},
      {"GPU/app=plugin", "\"GPU\" is not a valid namespace"},
      {"-gpu/app=plugin", "\"-gpu\" is not a valid namespace"},
      {"gpu.operator/app=plugin", "\"gpu.operator\" is not a valid namespace"},
      {std::string(64, 'a') + "/app=plugin", "is not a valid namespace"},
      {"gpu/", "\"\" is not a valid key of a label"},
      {"gpu/=plugin", "\"\" is not a valid key of a label"},
      {"gpu/a b=plugin", "\"a b\" is not a valid key of a label"},
      {"gpu/app,x=plugin", "\"app,x\" is not a valid key of a label"},
      {"gpu/app!=plugin", "\"app!\" is not a valid key of a label"},
      {"gpu//name=plugin", "\"/name\" is not a valid key of a label"},
      {"gpu/a..b/name=plugin", "\"a..b/name\" is not a valid key of a label"},
      {"gpu/a.b./name=plugin", "\"a.b./name\" is not a valid key of a label"},
      {"gpu/a/b/name=plugin", "\"a/b/name\" is not a valid key of a label"},
      {"gpu/app", "\"\" is not a valid value of a label"},
      {"gpu/app=", "\"\" is not a valid value of a label"},
      {"gpu/app==plugin", "\"=plugin\" is not a valid value of a label"},
      {"gpu/app=a,b=c", "\"a,b=c\" is not a valid value of a label"},
      {"gpu/app=plugin-", "\"plugin-\" is not a valid value of a label"},
      {"gpu/app=" + std::string(64, 'a'), "is not a valid value of a label"},
  };
  for (const Row& row : rows) {
    const auto label = parse_plugin_label(row.text);
    ASSERT_FALSE(label) << row.text;
    EXPECT_EQ(label.error().code, Errc::invalid) << row.text;
    EXPECT_THAT(label.error().text(), HasSubstr(row.cause)) << row.text;
    EXPECT_THAT(label.error().text(), HasSubstr("expected NAMESPACE/LABEL")) << row.text;
  }
}

class KubePluginPods : public testing::Test {
 protected:
  KubePluginPods() {
    directory_.write("token", "abc\n");
    certificate_.write_to(directory_.in("ca.crt"));
  }

  // Each request gets this answer from now on.
  void answer(const std::string& status, const std::string& body) {
    server_ = nullptr;
    server_ = std::make_unique<http::BlockingTlsServer>(
        certificate_,
        http::BlockingTlsServer::Options{
            fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\n\r\n{}", status, body.size(), body)});
    const auto found = gpuyard::kube::api_server_of_pod(
        {"127.0.0.1", std::to_string(server_->port()), directory_.path()});
    ASSERT_TRUE(found);
    pods_ = std::make_unique<PluginPods>(gpuyard::kube::Client(*found),
                                         PluginLabel{"gpu-operator", "app", "plugin"}, "n1");
  }

  static SeenPod plugin_pod() {
    return {.namespace_name = "gpu-operator", .name = "plugin-x7k2p", .uid = "u1", .node = "n1"};
  }

  ScratchDirectory directory_;
  const http::TestCertificate certificate_{"IP:127.0.0.1"};
  std::unique_ptr<http::BlockingTlsServer> server_;
  std::unique_ptr<PluginPods> pods_;
  PodPage page_;
};

TEST_F(KubePluginPods, ListIsOfNamespaceLabelAndNode) {
  answer("200 OK",
         R"({"items":[{"metadata":{"namespace":"gpu-operator","name":"plugin-x7k2p","uid":"u1"},)"
         R"("spec":{"nodeName":"n1"}}]})");
  EXPECT_EQ(pods_->list(page_).outcome, Outcome::ok);
  EXPECT_THAT(server_->request(), StartsWith("GET /api/v1/namespaces/gpu-operator/pods?"));
  EXPECT_THAT(server_->request(), HasSubstr("labelSelector=app%3Dplugin&"));
  EXPECT_THAT(server_->request(), HasSubstr("fieldSelector=spec.nodeName%3Dn1&"));
  EXPECT_THAT(server_->request(), HasSubstr("limit=3 HTTP/1.1\r\n"));
  EXPECT_THAT(page_.pods, testing::ElementsAre(plugin_pod()));
}

TEST_F(KubePluginPods, MalformedListIsNoSuccess) {
  answer("200 OK", "{}");
  EXPECT_EQ(pods_->list(page_).outcome, Outcome::malformed);
}

TEST_F(KubePluginPods, PodIsDeletedByItsUid) {
  answer("200 OK", R"({"kind":"Pod"})");
  EXPECT_EQ(pods_->remove(plugin_pod()).outcome, Outcome::ok);
  EXPECT_THAT(server_->request(),
              StartsWith("DELETE /api/v1/namespaces/gpu-operator/pods/plugin-x7k2p HTTP/1.1\r\n"));
  EXPECT_THAT(server_->request(), HasSubstr(R"("preconditions":{"uid":"u1"})"));
}

}  // namespace
}  // namespace gpuyard::cli::kube
