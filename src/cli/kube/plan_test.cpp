#include "cli/kube/plan.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/kube/api_server_for_tests.h"

namespace gpuyard::cli::kube {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::string_view kDriver = "gpu.nvidia.com";
constexpr const char* kForeign =
    R"({"effect":"NoSchedule","key":"team","value":"a","timeAdded":"2026-11-01T00:00:00Z"})";

template <class T>
std::vector<T> steps_of(const std::vector<Step>& steps) {
  std::vector<T> found;
  for (const Step& step : steps) {
    if (const T* const one = std::get_if<T>(&step)) found.push_back(*one);
  }
  return found;
}

// A node "n1" with two good GPUs, whose condition is written already.
class KubePlan : public testing::Test {
 protected:
  KubePlan() {
    settings_.node = "n1";
    desired_.is_known = true;
    desired_.is_complete = true;
    desired_.condition = ConditionText{ConditionStatus::yes, "GPUsGood", "2 of 2 GPUs are good"};
    desired_.gpus = {{0, "GPU-a", Verdict::good}, {1, "GPU-b", Verdict::good}};
    server_.node().condition = SeenCondition{*desired_.condition, now_.wall};
  }

  void offer_by_dra() { server_.devices = {device("gpu-0", "GPU-a"), device("gpu-1", "GPU-b")}; }
  void offer_by_plugin() {
    server_.node().has_plugin_gpus = true;
    server_.allocatable = {"GPU-a", "GPU-b"};
  }
  static SliceDevice device(const std::string& name, const std::string& uuid) {
    return {"n1", std::string(kDriver), "n1", name, uuid};
  }
  std::string name_of(std::size_t nth) const {
    return device_rule_name("n1", server_.devices.at(nth));
  }
  DeviceRule rule_of_first_gpu() {
    return {.name = name_of(0),
            .label = "n1",
            .owner = Owner{"Node", "n1", server_.node().uid},
            .driver = std::string(kDriver),
            .pool = "n1",
            .device = "gpu-0",
            .key = "gpuyard.io/sick",
            .value = "xid-fatal",
            .effect = "NoSchedule"};
  }
  void make_bad(std::size_t gpu, const std::string& rule = "xid-fatal") {
    desired_.gpus.at(gpu).verdict = Verdict::bad;
    desired_.gpus.at(gpu).rule = rule;
  }
  void make_good(std::size_t gpu) {
    desired_.gpus.at(gpu).verdict = Verdict::good;
    desired_.gpus.at(gpu).rule.clear();
  }
  void make_unknown(std::size_t gpu) {
    make_good(gpu);
    desired_.gpus.at(gpu).verdict = Verdict::unknown;
  }

  void pass(Duration time) {
    now_.boot += time;
    now_.wall += std::chrono::duration_cast<std::chrono::milliseconds>(time);
  }
  std::vector<Step> next() { return plan(settings_, desired_, server_.read(), memory_, now_); }
  // Sends all steps, and plans again until there is none. Returns those that were sent.
  std::vector<Step> settle() {
    std::vector<Step> sent;
    std::set<std::string> by_name;
    for (int i = 0; i < 20; ++i) {
      const auto steps = plan(settings_, desired_, server_.read(by_name), memory_, now_);
      if (steps.empty()) return sent;
      prepare(memory_, steps.front());
      if (server_.apply(steps.front()) != Answer::ok) {
        if (const auto* create = std::get_if<CreateRule>(&steps.front())) {
          by_name.insert(create->rule.name);
        }
        continue;
      }
      sent.push_back(steps.front());
    }
    ADD_FAILURE() << "never settles";
    return sent;
  }
  bool is_node_tainted() {
    return std::ranges::any_of(server_.node().taints,
                               [](const SeenTaint& taint) { return taint.key == kNodeTaintKey; });
  }

  Settings settings_;
  Desired desired_;
  ApiServer server_{"n1"};
  Memory memory_;
  Moment now_{TimePoint(std::chrono::hours(9)), WallTime(std::chrono::hours(500000))};
};

using KubeCondition = KubePlan;
using KubeRules = KubePlan;
using KubeTaint = KubePlan;

// --- The condition ---

TEST_F(KubeCondition, SettledClusterGetsNoWrite) {
  offer_by_dra();
  EXPECT_THAT(next(), IsEmpty());
}

TEST_F(KubeCondition, MissingConditionIsWritten) {
  server_.node().condition.reset();
  EXPECT_THAT(next(), ElementsAre(Step(WriteCondition{"gpuyard.io/GPUsHealthy", *desired_.condition,
                                                      now_.wall, now_.wall})));
}

TEST_F(KubeCondition, TypeIsConfigurable) {
  server_.node().condition.reset();
  settings_.condition_type = "GpuOk";
  EXPECT_EQ(steps_of<WriteCondition>(next()).at(0).type, "GpuOk");
}

TEST_F(KubeCondition, TransitionTimeChangesWithStatusOnly) {
  const WallTime before = now_.wall;
  pass(seconds(60));
  desired_.condition->message = "2 of 2 GPUs are good.";
  auto written = steps_of<WriteCondition>(settle());
  ASSERT_THAT(written, SizeIs(1));
  EXPECT_EQ(written[0].changed_at, before);
  EXPECT_EQ(written[0].written_at, now_.wall);
  pass(seconds(60));
  desired_.condition->status = ConditionStatus::no;
  written = steps_of<WriteCondition>(settle());
  ASSERT_THAT(written, SizeIs(1));
  EXPECT_EQ(written[0].changed_at, now_.wall);
}

// NVSentinel#1439, eks-node-monitoring-agent#39.
TEST_F(KubeCondition, SecondAlertKeepsTransitionTime) {
  desired_.condition = ConditionText{ConditionStatus::no, "XidFatal", "GPU 0: Xid 79."};
  settle();
  const WallTime first = now_.wall;
  pass(seconds(60));
  desired_.condition = ConditionText{ConditionStatus::no, "XidFatal", "GPU 0, 1: Xid 79."};
  settle();
  EXPECT_EQ(server_.node().condition->changed_at, first);
}

TEST_F(KubeCondition, UnknownDaemonChangesOnlyCondition) {
  offer_by_dra();
  offer_by_plugin();
  server_.devices.pop_back();
  make_bad(0);
  make_bad(1, "gpu-lost");
  settle();
  ASSERT_THAT(server_.rules(), SizeIs(1));
  ASSERT_TRUE(is_node_tainted());
  desired_ = {.condition = ConditionText{ConditionStatus::unknown, "DaemonSilent", "silent"}};
  EXPECT_THAT(settle(), ElementsAre(testing::VariantWith<WriteCondition>(testing::_)));
  EXPECT_THAT(server_.rules(), SizeIs(1));
  EXPECT_TRUE(is_node_tainted());
  server_.devices.clear();
  EXPECT_THAT(settle(), IsEmpty()) << "nor a rule whose device is gone";
  offer_by_dra();
  server_.recreate_node(true);
  EXPECT_THAT(settle(), SizeIs(1)) << "the condition; nor is a rule added";
}

TEST_F(KubeCondition, NoWriteBeforeFirstVerdict) {
  server_.node().condition.reset();
  desired_ = {};
  EXPECT_THAT(next(), IsEmpty());
}

TEST_F(KubeCondition, ConditionComesFirst) {
  offer_by_dra();
  settings_.taint_node = NodeTaintPolicy::any;
  make_bad(0);
  make_bad(1);
  desired_.condition->status = ConditionStatus::no;
  const auto steps = next();
  ASSERT_THAT(steps, SizeIs(4));
  EXPECT_TRUE(std::holds_alternative<WriteCondition>(steps[0]));
  EXPECT_TRUE(std::holds_alternative<CreateRule>(steps[1]));
  EXPECT_TRUE(std::holds_alternative<CreateRule>(steps[2]));
  EXPECT_TRUE(std::holds_alternative<PatchTaints>(steps[3]));
}

TEST_F(KubeCondition, OtherNodeGetsNoWrite) {
  settings_.node = "n2";
  server_.node().condition.reset();
  EXPECT_THAT(next(), IsEmpty()) << "the agent of n2 that reads n1";
}

TEST_F(KubeCondition, AbsentNodeGetsNoWrite) {
  offer_by_dra();
  make_bad(0);
  Seen seen = server_.read();
  seen.node.reset();
  EXPECT_THAT(plan(settings_, desired_, seen, memory_, now_), IsEmpty());
}

// --- Rules ---

TEST_F(KubeRules, RuleOfBadGpuHasOwnerAndCompleteSelector) {
  offer_by_dra();
  make_bad(0);
  const DeviceRule rule = rule_of_first_gpu();
  EXPECT_THAT(settle(), ElementsAre(Step(CreateRule{rule})));
  make_good(0);
  const std::string uid = server_.rules().at(0).uid;
  EXPECT_THAT(settle(), ElementsAre(Step(DeleteRule{rule.name, uid})));
}

TEST_F(KubeRules, LongNodeNameIsHashedInLabel) {
  const std::string node(100, 'n');
  settings_.node = node;
  ApiServer server(node);
  server.devices = {{node, "d", "p", "gpu-0", "GPU-a"}};
  make_bad(0);
  const auto created =
      steps_of<CreateRule>(plan(settings_, desired_, server.read(), memory_, now_));
  ASSERT_THAT(created, SizeIs(1));
  EXPECT_EQ(created[0].rule.label, node_label(node));
  EXPECT_EQ(created[0].rule.owner->name, node);
  EXPECT_TRUE(is_own(created[0].rule, node));
}

TEST_F(KubeRules, EachDeviceOfGpuGetsRule) {
  server_.devices = {device("gpu-0-mig-1", "GPU-a"), device("gpu-0-mig-2", "GPU-a"),
                     device("gpu-1", "GPU-b")};
  make_bad(0);
  EXPECT_THAT(steps_of<CreateRule>(settle()), SizeIs(2));
}

TEST_F(KubeRules, EightSickGpusGetOneRuleEach) {
  desired_.gpus.clear();
  for (std::uint32_t i = 0; i < 8; ++i) {
    desired_.gpus.push_back({i, fmt::format("GPU-{}", i), Verdict::bad, "xid-fatal"});
    server_.devices.push_back(device(fmt::format("gpu-{}", i), fmt::format("GPU-{}", i)));
  }
  desired_.condition->status = ConditionStatus::no;
  EXPECT_THAT(settle(), SizeIs(9)) << "and the condition";
}

TEST_F(KubeRules, ChangeOfOneGpuNeedsAtMostThreeWrites) {
  offer_by_dra();
  make_bad(0);
  desired_.condition->status = ConditionStatus::no;
  EXPECT_THAT(settle(), SizeIs(2));
  make_bad(0, "poison");
  desired_.condition->reason = "Poison";
  EXPECT_THAT(settle(), SizeIs(3));
}

// A rule by the device's name alone would taint the board that came into the slot.
TEST_F(KubeRules, ReplacedGpuLosesRule) {
  offer_by_dra();
  make_bad(0);
  settle();
  server_.devices[0].uuid = "GPU-new";
  EXPECT_THAT(settle(), SizeIs(1));
  EXPECT_THAT(server_.rules(), IsEmpty());
}

TEST_F(KubeRules, RenumberedGpuIsFoundByUuid) {
  offer_by_dra();
  make_bad(0);
  settle();
  std::swap(server_.devices[0].uuid, server_.devices[1].uuid);
  const auto steps = settle();
  ASSERT_THAT(steps, SizeIs(2));
  EXPECT_TRUE(std::holds_alternative<CreateRule>(steps[0])) << "first, so that it is never free";
  ASSERT_THAT(server_.rules(), SizeIs(1));
  EXPECT_EQ(server_.rules()[0].device, "gpu-1");
}

TEST_F(KubeRules, DeviceOfOtherNodeGetsNoRule) {
  offer_by_dra();
  server_.devices[0].node = "n2";
  make_bad(0);
  EXPECT_THAT(settle(), IsEmpty());
}

// An empty selector taints every device of the cluster.
TEST_F(KubeRules, DeviceWithoutFullNameGetsNoRule) {
  make_bad(0);
  for (auto part :
       {&SliceDevice::driver, &SliceDevice::pool, &SliceDevice::device, &SliceDevice::uuid}) {
    offer_by_dra();
    (server_.devices[0].*part).clear();
    EXPECT_THAT(settle(), IsEmpty());
  }
}

TEST_F(KubeRules, UnknownGpuKeepsItsRuleAndGetsNone) {
  offer_by_dra();
  make_bad(0);
  settle();
  make_unknown(0);
  make_unknown(1);
  EXPECT_THAT(settle(), IsEmpty());
  EXPECT_THAT(server_.rules(), SizeIs(1));
  desired_.gpus.clear();
  EXPECT_THAT(settle(), IsEmpty()) << "a GPU that the daemon does not list is unknown";
}

TEST_F(KubeRules, CordonGetsRuleWithoutEviction) {
  offer_by_dra();
  desired_.gpus[0].cordoned = true;
  for (const auto& [effect, name] :
       {std::pair{DeviceEffect::none, "None"}, std::pair{DeviceEffect::no_schedule, "NoSchedule"},
        std::pair{DeviceEffect::no_execute, "NoSchedule"}}) {
    settings_.effect = effect;
    settle();
    ASSERT_THAT(server_.rules(), SizeIs(1));
    EXPECT_EQ(server_.rules()[0].value, "cordoned");
    EXPECT_EQ(server_.rules()[0].effect, name);
  }
  desired_.gpus[0].cordoned = false;
  settle();
  EXPECT_THAT(server_.rules(), IsEmpty());
}

TEST_F(KubeRules, AlertHasConfiguredEffect) {
  offer_by_dra();
  make_bad(0);
  desired_.gpus[0].cordoned = true;
  for (const auto& [effect, name] :
       {std::pair{DeviceEffect::none, "None"}, std::pair{DeviceEffect::no_schedule, "NoSchedule"},
        std::pair{DeviceEffect::no_execute, "NoExecute"}}) {
    settings_.effect = effect;
    settle();
    ASSERT_THAT(server_.rules(), SizeIs(1));
    EXPECT_EQ(server_.rules()[0].value, "xid-fatal");
    EXPECT_EQ(server_.rules()[0].effect, name);
  }
}

TEST_F(KubeRules, CordonOfUnknownGpuIsKnown) {
  offer_by_dra();
  make_unknown(0);
  desired_.gpus[0].cordoned = true;
  settle();
  ASSERT_THAT(server_.rules(), SizeIs(1));
  EXPECT_EQ(server_.rules()[0].value, "cordoned");
  desired_.gpus[0].cordoned = false;
  settle();
  EXPECT_THAT(server_.rules(), IsEmpty());
  make_bad(0);
  settle();
  make_unknown(0);
  desired_.gpus[0].cordoned = true;
  EXPECT_THAT(settle(), IsEmpty()) << "the alert may go on";
}

TEST_F(KubeRules, MissingDriverTaintsAllDevices) {
  offer_by_dra();
  desired_.gpus.clear();
  desired_.is_complete = false;
  EXPECT_THAT(settle(), IsEmpty());
  desired_.driver_down = true;
  settle();
  ASSERT_THAT(server_.rules(), SizeIs(2));
  EXPECT_EQ(server_.rules()[0].value, "driver-down");
}

TEST_F(KubeRules, OldApiGivesNodeLevelOnly) {
  offer_by_dra();
  server_.api = ResourceApi::none;
  make_bad(0);
  EXPECT_THAT(settle(), IsEmpty());
  server_.api = ResourceApi::v1beta2;
  EXPECT_THAT(settle(), SizeIs(1));
}

TEST_F(KubeRules, RuleIsRecreatedWhenApiReturns) {
  offer_by_dra();
  make_bad(0);
  settle();
  server_.api = ResourceApi::none;
  settle();
  server_.remove_rule(name_of(0));
  server_.api = ResourceApi::v1;
  EXPECT_THAT(settle(), SizeIs(1));
}

// --- Rules that meet others ---

TEST_F(KubeRules, DeletedRuleIsRespectedUntilAlertChanges) {
  offer_by_dra();
  make_bad(0);
  settle();
  server_.remove_rule(name_of(0));
  EXPECT_THAT(settle(), IsEmpty());
  pass(std::chrono::hours(1));
  EXPECT_THAT(settle(), IsEmpty());
  make_unknown(0);
  EXPECT_THAT(settle(), IsEmpty());
  make_bad(0);
  EXPECT_THAT(settle(), IsEmpty()) << "the same alert";
  make_bad(0, "poison");
  EXPECT_THAT(settle(), SizeIs(1)) << "another alert";
  server_.remove_rule(name_of(0));
  EXPECT_THAT(settle(), IsEmpty());
  make_good(0);
  EXPECT_THAT(settle(), IsEmpty());
  make_bad(0, "poison");
  EXPECT_THAT(settle(), SizeIs(1)) << "the rule has fired again";
}

TEST_F(KubeRules, DeletionDuringSilenceIsRespected) {
  offer_by_dra();
  make_bad(0);
  settle();
  const Desired before = std::exchange(desired_, Desired{});
  settle();
  server_.remove_rule(name_of(0));
  settle();
  desired_ = before;
  EXPECT_THAT(settle(), IsEmpty());
}

TEST_F(KubeRules, RuleThatWentWithNodeIsMadeAgain) {
  offer_by_dra();
  make_bad(0);
  settle();
  server_.recreate_node(true);
  settle();
  ASSERT_THAT(server_.rules(), SizeIs(1));
  EXPECT_EQ(server_.rules()[0].owner->uid, server_.node().uid);
}

TEST_F(KubeRules, RestartAdoptsOwnRules) {
  offer_by_dra();
  make_bad(0);
  settle();
  memory_ = {};
  EXPECT_THAT(settle(), IsEmpty());
  memory_ = {};
  make_good(0);
  settle();
  EXPECT_THAT(server_.rules(), IsEmpty());
}

// An agent that dies between the two halves of a replacement has no answer of the first.
TEST_F(KubeRules, DeathBetweenDeleteAndCreateIsNoDeletion) {
  offer_by_dra();
  make_bad(0);
  settle();
  settings_.effect = DeviceEffect::no_execute;
  const auto steps = next();
  ASSERT_THAT(steps, SizeIs(2));
  prepare(memory_, steps[0]);
  EXPECT_EQ(server_.apply(steps[0]), Answer::ok);
  EXPECT_THAT(settle(), SizeIs(1));
  EXPECT_THAT(server_.rules(), SizeIs(1));
}

// Only an object of the same content is success after a conflict.
TEST_F(KubeRules, OwnRuleOfOtherContentIsReplaced) {
  offer_by_dra();
  make_bad(0);
  settle();
  const DeviceRule right = server_.rules()[0];
  for (const auto& spoil : std::vector<std::function<void(DeviceRule&)>>{
           [](DeviceRule& rule) { rule.pool = "n2"; },
           [](DeviceRule& rule) { rule.driver.reset(); },
           [](DeviceRule& rule) { rule.device = "gpu-1"; },
           [](DeviceRule& rule) { rule.value = "poison"; },
           [](DeviceRule& rule) { rule.effect = "NoExecute"; },
           [](DeviceRule& rule) { rule.owner->uid = "uid-of-old"; },
           [](DeviceRule& rule) {
             rule.driver.reset();
             rule.pool.reset();
             rule.device.reset();
           }}) {
    DeviceRule wrong = right;
    spoil(wrong);
    server_.remove_rule(right.name);
    server_.add_rule(wrong);
    const std::string uid = server_.rules()[0].uid;
    EXPECT_THAT(steps_of<DeleteRule>(settle()), ElementsAre(DeleteRule{right.name, uid}));
    ASSERT_THAT(server_.rules(), SizeIs(1));
    EXPECT_TRUE(server_.rules()[0].has_content_of(right));
  }
}

TEST_F(KubeRules, ForeignRuleOfOurNameIsLeftAlone) {
  offer_by_dra();
  const DeviceRule own = rule_of_first_gpu();
  for (const auto& spoil : std::vector<std::function<void(DeviceRule&)>>{
           [](DeviceRule& rule) { rule.label.clear(); },
           [](DeviceRule& rule) { rule.key = "team/mine"; },
           [](DeviceRule& rule) { rule.owner.reset(); },
           [](DeviceRule& rule) { rule.owner->kind = "Pod"; },
           [](DeviceRule& rule) { rule.owner->name = "n2"; }}) {
    DeviceRule foreign = own;
    spoil(foreign);
    server_.remove_rule(own.name);
    server_.add_rule(foreign);
    const auto before = server_.rules();
    make_bad(0);
    EXPECT_THAT(settle(), IsEmpty());
    make_good(0);
    EXPECT_THAT(settle(), IsEmpty());
    EXPECT_EQ(server_.rules(), before);
  }
}

TEST_F(KubeRules, StaleOwnRuleIsRemoved) {
  offer_by_dra();
  server_.add_rule({.name = "gpuyard-n1-00000000",
                    .label = "n1",
                    .owner = Owner{"Node", "n1", server_.node().uid},
                    .key = std::string(kDeviceTaintKey)});
  EXPECT_THAT(settle(), SizeIs(1));
  EXPECT_THAT(server_.rules(), IsEmpty());
}

// --- The node's taint ---

TEST_F(KubeTaint, LostGpuOfPluginTaintsNode) {
  for (const char* const rule : {"gpu-lost", "gpu-unresponsive"}) {
    offer_by_plugin();
    make_bad(0, rule);
    const std::string version = server_.node().resource_version;
    EXPECT_THAT(
        settle(),
        ElementsAre(Step(PatchTaints{
            version,
            {fmt::format(R"({{"key":"gpuyard.io/gpu-sick","value":"{}","effect":"NoSchedule"}})",
                         rule)},
            true})));
    make_good(0);
    EXPECT_THAT(settle(), SizeIs(1));
    EXPECT_FALSE(is_node_tainted());
  }
}

// Its rule keeps pods away; the others of the node can be had.
TEST_F(KubeTaint, LostGpuWithSliceTaintsNoNode) {
  offer_by_dra();
  offer_by_plugin();
  make_bad(0, "gpu-lost");
  settle();
  pass(kPluginTimeout);
  settle();
  EXPECT_FALSE(is_node_tainted());
  server_.api = ResourceApi::none;
  settle();
  EXPECT_FALSE(is_node_tainted()) << "a cluster with slices and without rules";
}

TEST_F(KubeTaint, LostGpuWithoutPluginTaintsNoNode) {
  make_bad(0, "gpu-lost");
  EXPECT_THAT(settle(), IsEmpty());
  server_.allocatable = {"GPU-a"};
  settle();
  EXPECT_TRUE(is_node_tainted());
}

TEST_F(KubeTaint, PluginSeenOnceIsRemembered) {
  server_.allocatable = {"GPU-a"};
  settle();
  server_.allocatable->clear();
  make_bad(0, "gpu-lost");
  settle();
  EXPECT_TRUE(is_node_tainted());
}

TEST_F(KubeTaint, BadGpuTaintsNodeIfPluginKeepsIt) {
  offer_by_plugin();
  make_bad(0);
  settle();
  pass(kPluginTimeout - seconds(1));
  settle();
  EXPECT_FALSE(is_node_tainted());
  pass(seconds(1));
  settle();
  EXPECT_TRUE(is_node_tainted());
  server_.allocatable->erase("GPU-a");
  settle();
  EXPECT_FALSE(is_node_tainted()) << "the plugin hides it now";
}

TEST_F(KubeTaint, GpuHiddenByPluginInTimeTaintsNoNode) {
  offer_by_plugin();
  make_bad(0);
  settle();
  pass(seconds(10));
  server_.allocatable->erase("GPU-a");
  settle();
  pass(seconds(10));
  server_.allocatable->insert("GPU-a");
  settle();
  pass(seconds(10));
  settle();
  EXPECT_FALSE(is_node_tainted()) << "ten seconds once more";
}

TEST_F(KubeTaint, MissingKubeletChangesNothing) {
  offer_by_plugin();
  make_bad(0);
  settle();
  pass(kPluginTimeout);
  settle();
  ASSERT_TRUE(is_node_tainted());
  server_.allocatable.reset();
  EXPECT_THAT(settle(), IsEmpty());
  server_.remove_taints(kNodeTaintKey);
  memory_ = {};
  EXPECT_THAT(settle(), IsEmpty());
}

TEST_F(KubeTaint, CordonTaintsNoNode) {
  offer_by_plugin();
  desired_.gpus[0].cordoned = true;
  for (const auto policy : {NodeTaintPolicy::needed, NodeTaintPolicy::any}) {
    settings_.taint_node = policy;
    settle();
    pass(kPluginTimeout);
    EXPECT_THAT(settle(), IsEmpty());
  }
}

// A lost GPU ends the plugin, and the kubelet sets the capacity to 0 some minutes later.
TEST_F(KubeTaint, NodeStaysTaintedWhilePluginIsGone) {
  server_.node().has_plugin_gpus = true;
  server_.allocatable.reset();
  make_bad(0, "gpu-lost");
  settle();
  ASSERT_TRUE(is_node_tainted());
  server_.node().has_plugin_gpus = false;
  settle();
  EXPECT_TRUE(is_node_tainted());
}

// Another driver's devices may have UUIDs of their own.
TEST_F(KubeRules, DriverDownTaintsNoDeviceOfAnotherKind) {
  offer_by_dra();
  server_.devices.push_back({"n1", "nic.example.com", "n1", "nic-0", "NIC-a"});
  desired_.gpus.clear();
  desired_.driver_down = true;
  settle();
  EXPECT_THAT(server_.rules(), SizeIs(2));
  EXPECT_EQ(server_.find_rule(name_of(2)), nullptr);
}

// Such an agent has no right to patch its node.
TEST_F(KubeTaint, PolicyNeverLeavesTaintsAlone) {
  offer_by_plugin();
  settings_.taint_node = NodeTaintPolicy::never;
  make_bad(0, "gpu-lost");
  settle();
  EXPECT_FALSE(is_node_tainted());
  settings_.taint_node = NodeTaintPolicy::needed;
  settle();
  ASSERT_TRUE(is_node_tainted());
  settings_.taint_node = NodeTaintPolicy::never;
  make_good(0);
  settle();
  EXPECT_TRUE(is_node_tainted()) << "withdraw removes it";
}

TEST_F(KubeTaint, UnknownGpuKeepsTaint) {
  offer_by_plugin();
  make_bad(0, "gpu-lost");
  settle();
  make_unknown(0);
  EXPECT_THAT(settle(), IsEmpty());
  memory_ = {};
  EXPECT_THAT(settle(), IsEmpty()) << "nor after a restart without memory";
  EXPECT_TRUE(is_node_tainted());
}

TEST_F(KubeTaint, OtherUnknownGpuKeepsNoTaint) {
  offer_by_plugin();
  make_bad(0, "gpu-lost");
  settle();
  make_good(0);
  make_unknown(1);
  settle();
  EXPECT_FALSE(is_node_tainted());
}

TEST_F(KubeTaint, GpuThatIsGoneKeepsNoTaint) {
  offer_by_plugin();
  make_bad(0, "gpu-lost");
  settle();
  desired_.gpus.erase(desired_.gpus.begin());
  desired_.is_complete = false;
  EXPECT_THAT(settle(), IsEmpty()) << "it may be in the part that is missing";
  desired_.is_complete = true;
  settle();
  EXPECT_FALSE(is_node_tainted());
}

// NVSentinel#1439: a set, not a state.
TEST_F(KubeTaint, EndOfFirstAlertKeepsTaintOfSecond) {
  offer_by_plugin();
  make_bad(0, "gpu-lost");
  settle();
  make_bad(1, "gpu-unresponsive");
  EXPECT_THAT(settle(), IsEmpty());
  make_good(0);
  settle();
  ASSERT_TRUE(is_node_tainted());
  EXPECT_EQ(server_.node().taints[0].value, "gpu-unresponsive");
  make_good(1);
  settle();
  EXPECT_FALSE(is_node_tainted());
}

TEST_F(KubeTaint, MissingDriverTaintsNodeThatPluginOffers) {
  offer_by_plugin();
  desired_.gpus.clear();
  desired_.is_complete = false;
  desired_.driver_down = true;
  settle();
  EXPECT_FALSE(is_node_tainted());
  pass(kPluginTimeout);
  settle();
  ASSERT_TRUE(is_node_tainted());
  EXPECT_EQ(server_.node().taints[0].value, "driver-down");
}

TEST_F(KubeTaint, DriverDownTaintsNodeUnderPolicyAny) {
  settings_.taint_node = NodeTaintPolicy::any;
  desired_.gpus.clear();
  desired_.driver_down = true;
  settle();
  EXPECT_TRUE(is_node_tainted());
}

TEST_F(KubeTaint, ForeignTaintsStayAsTheyAre) {
  offer_by_plugin();
  server_.add_taint("team", kForeign);
  server_.add_taint("node.kubernetes.io/unschedulable", R"({"key":"x", "odd" : [1,2]})");
  make_bad(0, "gpu-lost");
  const auto patches = steps_of<PatchTaints>(settle());
  ASSERT_THAT(patches, SizeIs(1));
  ASSERT_THAT(patches[0].taints, SizeIs(3));
  EXPECT_EQ(patches[0].taints[0], kForeign);
  EXPECT_EQ(patches[0].taints[1], R"({"key":"x", "odd" : [1,2]})");
  make_good(0);
  settle();
  EXPECT_THAT(server_.node().taints, SizeIs(2));
}

TEST_F(KubeTaint, TaintAddedSinceIsNotLost) {
  offer_by_plugin();
  make_bad(0, "gpu-lost");
  const auto steps = next();
  server_.add_taint("team", kForeign);
  EXPECT_EQ(server_.apply(steps.at(0)), Answer::conflict);
  settle();
  EXPECT_THAT(server_.node().taints, SizeIs(2));
}

TEST_F(KubeTaint, DeletedTaintIsRespectedUntilAlertChanges) {
  offer_by_plugin();
  make_bad(0, "gpu-lost");
  settle();
  server_.remove_taints(kNodeTaintKey);
  EXPECT_THAT(settle(), IsEmpty());
  make_bad(1, "gpu-lost");
  settle();
  EXPECT_TRUE(is_node_tainted()) << "the alert of another GPU";
  server_.remove_taints(kNodeTaintKey);
  EXPECT_THAT(settle(), IsEmpty());
  make_good(1);
  EXPECT_THAT(settle(), IsEmpty()) << "one of the two goes on";
  make_good(0);
  settle();
  make_bad(0, "gpu-lost");
  settle();
  EXPECT_TRUE(is_node_tainted());
}

TEST_F(KubeTaint, RestartAdoptsOwnTaint) {
  offer_by_plugin();
  make_bad(0);
  settle();
  pass(kPluginTimeout);
  settle();
  memory_ = {};
  EXPECT_THAT(settle(), IsEmpty()) << "also within the plugin's timeout";
  memory_ = {};
  make_good(0);
  settle();
  EXPECT_FALSE(is_node_tainted());
}

TEST_F(KubeTaint, OwnTaintOfOtherEffectIsReplaced) {
  offer_by_plugin();
  server_.node().taints.push_back(
      {std::string(kNodeTaintKey), "gpu-lost", "NoExecute", R"({"key":"gpuyard.io/gpu-sick"})"});
  server_.touch_node();
  make_bad(0, "gpu-lost");
  settle();
  ASSERT_THAT(server_.node().taints, SizeIs(1));
  EXPECT_EQ(server_.node().taints[0].effect, "NoSchedule");
}

}  // namespace
}  // namespace gpuyard::cli::kube
