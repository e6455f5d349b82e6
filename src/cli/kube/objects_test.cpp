#include "cli/kube/objects.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuyard::cli::kube {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kNode = R"({"kind":"Node",
  "metadata":{"name":"n1","uid":"u1","resourceVersion":"7"},
  "spec":{"taints":[{"key":"team","value":"a","effect":"NoSchedule","timeAdded":"2026-11-01T00:00:00Z"},
                    {"key":"gpuyard.io/gpu-sick","value":"gpu-lost","effect":"NoSchedule"}]},
  "status":{"capacity":{"cpu":"8","nvidia.com/gpu":"4"},
    "conditions":[{"type":"Ready","status":"True"},
      {"type":"gpuyard.io/GPUsHealthy","status":"False","reason":"XidFatal","message":"GPU 0",
       "lastTransitionTime":"2026-11-28T01:02:03Z"}]}})";

SeenNode node_from(const char* text) {
  auto node = parse_node(text, kConditionType);
  EXPECT_TRUE(node) << node.error().text();
  return node ? *node : SeenNode{};
}

TEST(KubeObjects, NodeIsRead) {
  const SeenNode node = node_from(kNode);
  EXPECT_EQ(node.name, "n1");
  EXPECT_EQ(node.uid, "u1");
  EXPECT_EQ(node.resource_version, "7");
  ASSERT_TRUE(node.condition);
  EXPECT_EQ(node.condition->text, (ConditionText{ConditionStatus::no, "XidFatal", "GPU 0"}));
  EXPECT_EQ(to_rfc3339(node.condition->changed_at), "2026-11-28T01:02:03.000Z");
  EXPECT_TRUE(node.has_plugin_gpus);
}

// What gpuyard does not know of another's taint must survive a patch of the list.
TEST(KubeObjects, ForeignTaintIsSentAsItWasRead) {
  const SeenNode node = node_from(kNode);
  ASSERT_THAT(node.taints, SizeIs(2));
  EXPECT_EQ(node.taints[0].key, "team");
  EXPECT_EQ(taints_patch({"7", {node.taints[0].json}, false}),
            R"({"spec":{"taints":[{"key":"team","value":"a","effect":"NoSchedule",)"
            R"("timeAdded":"2026-11-01T00:00:00Z"}]}})");
  EXPECT_EQ(taints_patch({"7", {}, false}), R"({"spec":{"taints":[]}})");
}

TEST(KubeObjects, NodeWithoutPluginOrConditionIsRead) {
  const SeenNode node = node_from(
      R"({"metadata":{"name":"n1","uid":"u1"},"status":{"capacity":{"nvidia.com/gpu":"0"}}})");
  EXPECT_FALSE(node.condition);
  EXPECT_FALSE(node.has_plugin_gpus);
  EXPECT_THAT(node.taints, IsEmpty());
}

TEST(KubeObjects, PluginGpusAreRecognizedByResourceName) {
  const auto has_gpus = [](const char* resource) {
    const std::string text = fmt::format(
        R"({{"metadata":{{"name":"n1","uid":"u"}},"status":{{"capacity":{{"{}":"4"}}}}}})",
        resource);
    return node_from(text.c_str()).has_plugin_gpus;
  };
  EXPECT_TRUE(has_gpus("nvidia.com/gpu"));
  EXPECT_TRUE(has_gpus("nvidia.com/gpu.shared"));
  EXPECT_TRUE(has_gpus("nvidia.com/mig-1g.10gb"));
  EXPECT_FALSE(has_gpus("nvidia.com/hostdev"));
  EXPECT_FALSE(has_gpus("cpu"));
}

TEST(KubeObjects, PageOfNodesNamesTheNext) {
  const auto page = parse_nodes(
      R"({"metadata":{"continue":"c1"},"items":[{"metadata":{"name":"n1","uid":"u"}},{}]})", "T");
  ASSERT_TRUE(page);
  ASSERT_THAT(page->nodes, SizeIs(1));
  EXPECT_EQ(page->continue_at, "c1");
  EXPECT_EQ(parse_nodes(R"({"items":[]})", "T")->continue_at, "");
  EXPECT_FALSE(parse_nodes(R"({"kind":"Status"})", "T"));
}

TEST(KubeObjects, MalformedNodeIsRefused) {
  for (const char* text : {"", "[]", "{}", R"({"metadata":{"name":"n1"}})", R"({"metadata":[]})"}) {
    EXPECT_FALSE(parse_node(text, kConditionType)) << text;
  }
}

std::string slice(const char* pool, int generation, const char* devices) {
  return fmt::format(
      R"({{"spec":{{"driver":"gpu.nvidia.com","nodeName":"n1","pool":{{"name":"{}","generation":{}}},)"
      R"("devices":[{}]}}}})",
      pool, generation, devices);
}
std::string list(std::initializer_list<std::string> items) {
  return fmt::format(R"({{"items":[{}]}})", fmt::join(items, ","));
}

TEST(KubeObjects, SliceDeviceHasUuidOfItsGpu) {
  const auto devices = parse_slices(list({slice("n1", 1, R"(
      {"name":"gpu-0","attributes":{"uuid":{"string":"GPU-a"}}},
      {"name":"mig-0","attributes":{"uuid":{"string":"MIG-x"},"parentUUID":{"string":"GPU-a"}}},
      {"name":"gpu-1","attributes":{"gpu.nvidia.com/uuid":{"string":"GPU-b"}}},
      {"name":"other"})")}));
  ASSERT_TRUE(devices);
  EXPECT_THAT(*devices,
              ElementsAre(SliceDevice{"n1", "gpu.nvidia.com", "n1", "gpu-0", "GPU-a"},
                          SliceDevice{"n1", "gpu.nvidia.com", "n1", "mig-0", "GPU-a", true},
                          SliceDevice{"n1", "gpu.nvidia.com", "n1", "gpu-1", "GPU-b"},
                          SliceDevice{"n1", "gpu.nvidia.com", "n1", "other", ""}));
}

TEST(KubeObjects, OldGenerationOfPoolDoesNotCount) {
  const std::string old =
      slice("n1", 1, R"({"name":"gpu-0","attributes":{"uuid":{"string":"A"}}})");
  const std::string now =
      slice("n1", 2, R"({"name":"gpu-0","attributes":{"uuid":{"string":"B"}}})");
  const std::string more =
      slice("n1", 2, R"({"name":"gpu-1","attributes":{"uuid":{"string":"C"}}})");
  for (const auto& items : {list({old, now, more}), list({now, more, old})}) {
    const auto devices = parse_slices(items);
    ASSERT_TRUE(devices);
    ASSERT_THAT(*devices, SizeIs(2)) << items;
    EXPECT_EQ((*devices)[0].uuid, "B");
    EXPECT_EQ((*devices)[1].uuid, "C");
  }
}

TEST(KubeObjects, RuleIsReadAsItIsWritten) {
  const DeviceRule rule{.name = "gpuyard-n1-5f3c0a91",
                        .label = "n1",
                        .owner = Owner{"Node", "n1", "u1"},
                        .driver = "gpu.nvidia.com",
                        .pool = "n1",
                        .device = "gpu-0",
                        .key = "gpuyard.io/sick",
                        .value = "xid-fatal",
                        .effect = "NoSchedule"};
  std::string text = rule_object(rule, ResourceApi::v1);
  EXPECT_THAT(text, HasSubstr(R"("apiVersion":"resource.k8s.io/v1","kind":"DeviceTaintRule")"));
  EXPECT_THAT(rule_object(rule, ResourceApi::v1beta2),
              HasSubstr(R"("apiVersion":"resource.k8s.io/v1beta2")"));
  const std::string named = R"("name":"gpuyard-n1-5f3c0a91")";
  text.replace(text.find(named), named.size(), named + R"(,"uid":"r1")");
  const auto read = parse_rule(text);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_TRUE(read->has_content_of(rule));
  EXPECT_EQ(read->uid, "r1");
}

TEST(KubeObjects, RuleOfTwoOwnersHasNone) {
  const auto rule = parse_rule(R"({"metadata":{"name":"r","uid":"u","ownerReferences":[
      {"kind":"Node","name":"n1","uid":"1"},{"kind":"Node","name":"n2","uid":"2"}]},"spec":{}})");
  ASSERT_TRUE(rule);
  EXPECT_FALSE(rule->owner);
  EXPECT_FALSE(rule->driver);
}

TEST(KubeObjects, RulesWithoutUidAreLeftOut) {
  const auto rules =
      parse_rules(R"({"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b","uid":"u"}},7]})");
  ASSERT_TRUE(rules);
  ASSERT_THAT(*rules, SizeIs(1));
  EXPECT_EQ((*rules)[0].name, "b");
}

TEST(KubeObjects, ConditionIsWrittenWithItsTimes) {
  const WallTime changed = *from_rfc3339("2026-11-28T01:00:00Z");
  const WallTime written = *from_rfc3339("2026-11-28T02:00:00Z");
  const std::string text = condition_patch(
      {"GpuOk", {ConditionStatus::no, "XidFatal", "a \"quoted\" word"}, changed, written});
  EXPECT_EQ(text,
            R"({"status":{"conditions":[{"type":"GpuOk","status":"False","reason":"XidFatal",)"
            R"("message":"a \"quoted\" word","lastTransitionTime":"2026-11-28T01:00:00.000Z",)"
            R"("lastHeartbeatTime":"2026-11-28T02:00:00.000Z"}]}})");
  EXPECT_EQ(condition_removal("GpuOk"),
            R"({"status":{"conditions":[{"type":"GpuOk","$patch":"delete"}]}})");
}

TEST(KubeObjects, EventIsAboutTheNode) {
  const NodeEvent event{0xabc,
                        "u1",
                        {EventKind::bad, "GPU-a", "xid-fatal", "XidFatal", "GPU 0: Xid 79."},
                        *from_rfc3339("2026-11-28T01:00:00Z")};
  EXPECT_EQ(event_object(event, "n1"),
            R"({"apiVersion":"v1","kind":"Event","metadata":{"name":"n1.abc",)"
            R"("namespace":"default"},"involvedObject":{"apiVersion":"v1","kind":"Node",)"
            R"("name":"n1","uid":"u1"},"type":"Warning","reason":"XidFatal",)"
            R"("message":"GPU 0: Xid 79.","source":{"component":"gpuyard","host":"n1"},)"
            R"("reportingComponent":"gpuyard.io/agent","reportingInstance":"n1",)"
            R"("firstTimestamp":"2026-11-28T01:00:00.000Z",)"
            R"("lastTimestamp":"2026-11-28T01:00:00.000Z","count":1})");
  EXPECT_THAT(event_object({.event = {.kind = EventKind::good}}, "n1"),
              HasSubstr(R"("type":"Normal")"));
}

TEST(KubeObjects, PodIsRead) {
  const auto page = parse_pods(R"({"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[
      {"metadata":{"namespace":"gpu-operator","name":"plugin-x7k2p","uid":"u1","ownerReferences":[
         {"kind":"DaemonSet","name":"plugin","uid":"d1","controller":true}]},
       "spec":{"nodeName":"n1"},"status":{"startTime":"2026-11-28T01:02:03Z"}},
      {"metadata":{"namespace":"gpu-operator","name":"other","uid":"u2",
         "deletionTimestamp":"2026-11-28T01:02:03Z"},"spec":{}}]})");
  ASSERT_TRUE(page) << page.error().text();
  const SeenPod plugin{.namespace_name = "gpu-operator",
                       .name = "plugin-x7k2p",
                       .uid = "u1",
                       .node = "n1",
                       .started_at = from_rfc3339("2026-11-28T01:02:03Z"),
                       .is_of_daemon_set = true};
  const SeenPod other{
      .namespace_name = "gpu-operator", .name = "other", .uid = "u2", .is_being_deleted = true};
  EXPECT_THAT(page->pods, ElementsAre(plugin, other));
  EXPECT_TRUE(page->is_last);
}

TEST(KubeObjects, OwnerThatDoesNotControlMakesNoOtherPod) {
  for (const char* owner : {R"({"kind":"DaemonSet","name":"d","uid":"1"})",
                            R"({"kind":"DaemonSet","name":"d","uid":"1","controller":false})",
                            R"({"kind":"Node","name":"n1","uid":"1","controller":true})"}) {
    const auto page = parse_pods(fmt::format(
        R"({{"items":[{{"metadata":{{"namespace":"a","name":"b","uid":"c",
                                     "ownerReferences":[{}]}}}}]}})",
        owner));
    ASSERT_TRUE(page);
    EXPECT_FALSE(page->pods.at(0).is_of_daemon_set) << owner;
  }
}

TEST(KubeObjects, PodListThatGoesOnIsNotTheLast) {
  const auto page = parse_pods(R"({"metadata":{"continue":"abc"},"items":[]})");
  ASSERT_TRUE(page);
  EXPECT_FALSE(page->is_last);
}

TEST(KubeObjects, MalformedPodIsNoPodList) {
  for (const char* text :
       {"", "[]", "{}", R"({"items":{}})", R"({"items":[7]})",
        R"({"items":[{"metadata":{"namespace":"a","name":"b"}}]})",
        R"({"items":[{"metadata":{"namespace":"a","name":"b","uid":"c"}},{"metadata":{}}]})"}) {
    EXPECT_FALSE(parse_pods(text)) << text;
  }
}

TEST(KubeObjects, ServedResourcesAreFound) {
  constexpr const char* kServed =
      R"({"kind":"APIResourceList","resources":[{"name":"resourceslices"},{"name":"a"}]})";
  EXPECT_TRUE(serves_resource(kServed, "resourceslices"));
  EXPECT_FALSE(serves_resource(kServed, "devicetaintrules"));
  EXPECT_FALSE(serves_resource("{}", "devicetaintrules"));
}

}  // namespace
}  // namespace gpuyard::cli::kube
