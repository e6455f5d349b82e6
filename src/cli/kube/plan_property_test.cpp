// Properties that hold for all events in all orders: the cluster ends up knowing what it should
// (unless an administrator's deletion stands), no object of others is touched, what is unknown
// causes no write, and nothing is written once that is done.
//
// GPUYARD_CASES=100 runs 100 times as many cases; RC_PARAMS="seed=..." repeats a run.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "base/property_for_tests.h"
#include "cli/kube/api_server_for_tests.h"
#include "cli/kube/plan.h"

namespace gpuyard::cli::kube {
namespace {

constexpr int kCasesOfPlan = 300;
constexpr int kMaxRounds = 200;
constexpr std::size_t kGpus = 3;  // two of DRA, one of a device plugin
constexpr std::string_view kNodeOfPlan = "n1";

enum class What : std::uint8_t {
  turn_bad,
  turn_good,
  turn_unknown,
  cordon,
  silence,
  lose_driver,
  delete_rule,
  delete_taint,
  spoil_rule,
  add_own_taint,
  add_foreign_taint,
  remove_foreign_taint,
  add_foreign_rule,
  remove_foreign_rule,
  recreate_node,
  sweep_rules,
  rename_pool,
  swap_devices,
  replace_gpu,
  hide_gpu,
  lose_kubelet,
  change_api,
  touch_node,
  pass_time,
  lose_memory,
  count
};

struct Event {
  What what = What::count;
  unsigned which = 0;
};

// What happens at one of the agent's writes.
enum class Mishap : std::uint8_t {
  none,
  node_changes_first,     // the write meets a conflict if it has the Node's version
  dies_before_write,      // and restarts with its memory
  dies_after_write,       // the same, without the answer
  dies_and_loses_memory,  // after the write
  count
};

void showValue(const Event& event, std::ostream& os) {
  os << static_cast<int>(event.what) << "/" << event.which;
}

struct Batch {
  std::vector<Event> events;
  std::vector<Mishap> mishaps;
};

void showValue(const Batch& batch, std::ostream& os) {
  os << "{";
  for (const Event& event : batch.events) {
    showValue(event, os);
    os << " ";
  }
  os << "|";
  for (const Mishap mishap : batch.mishaps) os << " " << static_cast<int>(mishap);
  os << "}";
}

// A cluster, an agent, and an independent judge of what the agent may and must write.
class Cluster {
 public:
  Cluster(DeviceEffect effect, NodeTaintPolicy policy) {
    settings_.node = kNodeOfPlan;
    settings_.effect = effect;
    settings_.taint_node = policy;
    desired_.is_known = true;
    desired_.is_complete = true;
    desired_.condition = ConditionText{ConditionStatus::yes, "GPUsGood", "0"};
    for (std::uint32_t i = 0; i < kGpus; ++i) {
      desired_.gpus.push_back({i, fmt::format("GPU-{}", i), Verdict::good});
    }
    server_.devices = {{std::string(kNodeOfPlan), "d", "n1", "gpu-0", "GPU-0"},
                       {std::string(kNodeOfPlan), "d", "n1", "gpu-1", "GPU-1"}};
    server_.node().has_plugin_gpus = true;
    server_.allocatable = {"GPU-2"};
    settle({});
  }

  void run(const Batch& batch) {
    rules_at_start_ = own_rules();
    for (const Event& event : batch.events) happen(event);
    settle(batch.mishaps);
    judge();
  }

 private:
  struct Goal {
    enum { absent, present, unchanged } presence = unchanged;
    std::string value = {};
    std::string effect = {};
  };

  // --- The world ---

  void happen(const Event& event) {
    DesiredGpu& gpu = desired_.gpus.at(event.which % kGpus);
    switch (event.what) {
      case What::turn_bad: {
        gpu.verdict = Verdict::bad;
        const std::vector<std::string> rules = {"xid-fatal", "gpu-lost", "poison"};
        gpu.rule = rules.at(event.which / kGpus % rules.size());
        return change_condition();
      }
      case What::turn_good:
        gpu.verdict = Verdict::good;
        gpu.rule.clear();
        return change_condition();
      case What::turn_unknown:
        gpu.verdict = Verdict::unknown;
        gpu.rule.clear();
        return change_condition();
      case What::cordon:
        gpu.cordoned = !gpu.cordoned;
        return;
      case What::silence:
        desired_.is_known = !desired_.is_known;
        return change_condition();
      case What::lose_driver:
        desired_.driver_down = !desired_.driver_down;
        return change_condition();
      case What::delete_rule:
        return delete_rule(event.which);
      case What::delete_taint:
        if (own_taints().empty()) return;
        deleted_taint_.insert(taint_alerts_.begin(), taint_alerts_.end());
        server_.remove_taints(kNodeTaintKey);
        return;
      case What::spoil_rule:
        return spoil_rule(event.which);
      case What::add_own_taint:
        if (!own_taints().empty()) return;
        server_.add_taint(kNodeTaintKey, fmt::format(R"({{"key":"{}"}})", kNodeTaintKey));
        return;
      case What::add_foreign_taint:
        ++foreign_;
        server_.add_taint(fmt::format("team-{}", foreign_),
                          fmt::format(R"({{ "key" : "team-{}" }})", foreign_));
        return;
      case What::remove_foreign_taint:
        server_.remove_taints(fmt::format("team-{}", foreign_));
        return;
      case What::add_foreign_rule:
        return add_foreign_rule(event.which);
      case What::remove_foreign_rule:
        for (const DeviceRule& rule : foreign_rules()) return server_.remove_rule(rule.name);
        return;
      case What::recreate_node:
        server_.recreate_node(event.which % 2 == 0);
        deleted_.clear();
        respected_.clear();
        deleted_taint_.clear();
        taint_alerts_.clear();
        return;
      case What::sweep_rules:
        return server_.sweep_rules();
      case What::rename_pool:
        for (SliceDevice& device : server_.devices) {
          device.pool = device.pool == "n1" ? "n1/b" : "n1";
        }
        return;
      case What::swap_devices:
        return std::swap(server_.devices.at(0).uuid, server_.devices.at(1).uuid);
      case What::replace_gpu: {
        std::string& uuid = server_.devices.at(event.which % 2).uuid;
        const std::string other = fmt::format("GPU-{}", event.which % 2);
        const bool is_used = server_.devices.at((event.which + 1) % 2).uuid == other;
        uuid = uuid == "GPU-new" && !is_used ? other : "GPU-new";
        return;
      }
      case What::hide_gpu:
        if (!server_.allocatable) return;
        if (server_.allocatable->erase("GPU-2") == 0) server_.allocatable->insert("GPU-2");
        return;
      case What::lose_kubelet:
        if (server_.allocatable) return server_.allocatable.reset();
        server_.allocatable = {"GPU-2"};
        return;
      case What::change_api:
        server_.api = server_.api == ResourceApi::none ? ResourceApi::v1 : ResourceApi::none;
        respected_.clear();
        return;
      case What::touch_node:
        return server_.touch_node();
      case What::pass_time:
        return pass(std::chrono::seconds(7));
      case What::lose_memory:
        return lose_memory();
      case What::count:
        return;
    }
  }

  void change_condition() {
    desired_.condition->message = fmt::format("{}", ++messages_);
    desired_.condition->status =
        desired_.is_known ? ConditionStatus::yes : ConditionStatus::unknown;
  }

  void pass(Duration time) {
    now_.boot += time;
    now_.wall += std::chrono::duration_cast<std::chrono::milliseconds>(time);
  }

  void lose_memory() {
    memory_ = {};
    deleted_.clear();
    respected_.clear();
    taint_alerts_.clear();
    deleted_taint_.clear();
  }

  void delete_rule(unsigned which) {
    const auto own = own_rules();
    if (own.empty()) return;
    const DeviceRule rule = std::next(own.begin(), which % own.size())->second;
    const SliceDevice* const device = find_device(rule.name);
    server_.remove_rule(rule.name);
    // The agent knows the rule as it last saw it.
    const auto seen = memory_.standing_rules.find(rule.name);
    if (seen != memory_.standing_rules.end()) {
      deleted_[rule.name] = seen->second;
    } else if (device != nullptr) {
      deleted_[rule.name] = {device->uuid, rule.value};
    }
    const auto before = rules_at_start_.find(rule.name);
    const bool was_seen = before != rules_at_start_.end() && before->second == rule &&
                          rule.owner->uid == server_.node().uid &&
                          server_.api != ResourceApi::none && memory_.node_uid == rule.owner->uid &&
                          memory_.standing_rules.contains(rule.name);
    if (was_seen) respected_.insert(rule.name);
  }

  // As an agent of another configuration would leave it.
  void spoil_rule(unsigned which) {
    const auto own = own_rules();
    if (own.empty()) return;
    DeviceRule rule = std::next(own.begin(), which % own.size())->second;
    server_.remove_rule(rule.name);
    if (which % 3 == 0) rule.value = "spoilt";
    if (which % 3 == 1) rule.pool.reset();
    if (which % 3 == 2) rule.effect = "Spoilt";
    server_.add_rule(rule);
  }

  void add_foreign_rule(unsigned which) {
    const SliceDevice& device = server_.devices.at(which % 2);
    DeviceRule rule = rule_for(device, {Goal::present, "foreign", "NoSchedule"});
    if (which % 4 >= 2) rule.name = fmt::format("gpuyard-n1-{}", ++foreign_);
    if (which % 3 == 0) rule.label.clear();
    if (which % 3 == 1) rule.owner->name = "n2";
    if (which % 3 == 2) rule.key = "team/mine";
    if (server_.find_rule(rule.name) != nullptr) return;
    server_.add_rule(rule);
    foreign_uids_.insert(server_.rules().back().uid);
  }

  std::vector<DeviceRule> foreign_rules() const {
    std::vector<DeviceRule> rules;
    for (const DeviceRule& rule : server_.rules()) {
      if (foreign_uids_.contains(rule.uid)) rules.push_back(rule);
    }
    return rules;
  }
  std::map<std::string, DeviceRule> own_rules() const {
    std::map<std::string, DeviceRule> rules;
    for (const DeviceRule& rule : server_.rules()) {
      if (!foreign_uids_.contains(rule.uid)) rules.emplace(rule.name, rule);
    }
    return rules;
  }
  std::vector<SeenTaint> taints(bool own) {
    std::vector<SeenTaint> found;
    for (const SeenTaint& taint : server_.node().taints) {
      if ((taint.key == kNodeTaintKey) == own) found.push_back(taint);
    }
    return found;
  }
  std::vector<SeenTaint> own_taints() { return taints(true); }
  std::vector<std::string> foreign_taints() {
    std::vector<std::string> texts;
    for (const SeenTaint& taint : taints(false)) texts.push_back(taint.json);
    return texts;
  }

  const SliceDevice* find_device(const std::string& rule) const {
    for (const SliceDevice& device : server_.devices) {
      if (device_rule_name(kNodeOfPlan, device) == rule) return &device;
    }
    return nullptr;
  }

  // --- The agent ---

  // Until two plans are empty, with more time between them than any wait of a plan.
  void settle(std::vector<Mishap> mishaps) {
    rules_before_ = own_rules();
    had_taint_ = !own_taints().empty();
    const auto foreign_rules_before = foreign_rules();
    const auto foreign_taints_before = foreign_taints();
    bool is_quiet = false;
    std::set<std::string> by_name;
    for (int round = 0; round < kMaxRounds; ++round) {
      const auto steps = plan(settings_, desired_, server_.read(by_name), memory_, now_);
      if (steps.empty()) {
        if (is_quiet) {
          RC_ASSERT(foreign_rules() == foreign_rules_before);
          RC_ASSERT(foreign_taints() == foreign_taints_before);
          return;
        }
        is_quiet = true;
        pass(std::max(kPluginTimeout, kMessageInterval));
        continue;
      }
      is_quiet = false;
      Mishap mishap = Mishap::none;
      if (!mishaps.empty()) {
        mishap = mishaps.back();
        mishaps.pop_back();
      }
      send(steps, mishap, by_name);
    }
    RC_FAIL("writes again and again");
  }

  // Sends the steps in their order, until one is refused or changes the Node's version.
  void send(const std::vector<Step>& steps, Mishap mishap, std::set<std::string>& by_name) {
    for (const Step& step : steps) {
      if (mishap == Mishap::node_changes_first) server_.touch_node();
      check_step(step);
      prepare(memory_, step);
      if (mishap == Mishap::dies_before_write) return;
      const Answer answer = server_.apply(step);
      if (mishap == Mishap::dies_after_write) return;
      if (mishap == Mishap::dies_and_loses_memory) return lose_memory();
      const auto* const create = std::get_if<CreateRule>(&step);
      if (answer == Answer::conflict && create != nullptr) by_name.insert(create->rule.name);
      if (answer != Answer::ok || std::holds_alternative<WriteCondition>(step)) return;
    }
  }

  void check_step(const Step& step) {
    if (std::holds_alternative<WriteCondition>(step)) return;
    RC_ASSERT(desired_.is_known);
    if (const auto* const removal = std::get_if<DeleteRule>(&step)) {
      RC_ASSERT(!foreign_uids_.contains(removal->uid));
      RC_ASSERT(!removal->uid.empty());
    } else if (const auto* const create = std::get_if<CreateRule>(&step)) {
      const SliceDevice* const device = find_device(create->rule.name);
      RC_ASSERT(device != nullptr);
      const Goal goal = goal_of(*device);
      RC_ASSERT(goal.presence == Goal::present);
      RC_ASSERT(create->rule == rule_for(*device, goal));
    }
  }

  // --- The judge ---

  const DesiredGpu* find_gpu(const std::string& uuid) const {
    for (const DesiredGpu& gpu : desired_.gpus) {
      if (gpu.uuid == uuid) return &gpu;
    }
    return nullptr;
  }

  // The rule of a bad GPU; empty: it is not bad.
  std::string alert_of(const std::string& uuid) const {
    const DesiredGpu* const gpu = find_gpu(uuid);
    if (gpu != nullptr && gpu->verdict == Verdict::bad) return gpu->rule;
    return desired_.driver_down ? "driver-down" : "";
  }
  bool is_unknown(const std::string& uuid) const {
    const DesiredGpu* const gpu = find_gpu(uuid);
    return alert_of(uuid).empty() && (gpu == nullptr || gpu->verdict == Verdict::unknown);
  }

  Goal goal_of(const SliceDevice& device) const {
    const DesiredGpu* const gpu = find_gpu(device.uuid);
    const std::string effect = settings_.effect == DeviceEffect::none ? "None" : "NoSchedule";
    const bool evicts = settings_.effect == DeviceEffect::no_execute;
    if (const std::string rule = alert_of(device.uuid); !rule.empty()) {
      return {Goal::present, rule, evicts ? "NoExecute" : effect};
    }
    const auto before = rules_before_.find(device_rule_name(kNodeOfPlan, device));
    const bool stood = before != rules_before_.end();
    if (is_unknown(device.uuid) && stood && before->second.value != "cordoned") return {};
    if (gpu != nullptr && gpu->cordoned) return {Goal::present, "cordoned", effect};
    if (gpu == nullptr || (is_unknown(device.uuid) && !stood)) return {};
    return {Goal::absent};
  }

  DeviceRule rule_for(const SliceDevice& device, const Goal& goal) {
    return {.name = device_rule_name(kNodeOfPlan, device),
            .label = std::string(kNodeOfPlan),
            .owner = Owner{"Node", std::string(kNodeOfPlan), server_.node().uid},
            .driver = device.driver,
            .pool = device.pool,
            .device = device.device,
            .key = "gpuyard.io/sick",
            .value = goal.value,
            .effect = goal.effect};
  }

  void judge() {
    const auto& condition = server_.node().condition;
    RC_ASSERT(condition.has_value());
    RC_ASSERT(condition->text == *desired_.condition);
    if (!desired_.is_known) {
      RC_ASSERT(own_rules() == rules_before_);
      RC_ASSERT(!own_taints().empty() == had_taint_);
      return;
    }
    if (server_.api == ResourceApi::none) {
      RC_ASSERT(own_rules() == rules_before_);
    } else {
      judge_rules();
    }
    judge_taint();
  }

  void judge_rules() {
    const auto own = own_rules();
    for (const auto& [name, rule] : own) RC_ASSERT(find_device(name) != nullptr);
    for (const SliceDevice& device : server_.devices) {
      const std::string name = device_rule_name(kNodeOfPlan, device);
      const auto rule = own.find(name);
      const Goal goal = goal_of(device);
      const auto before = rules_before_.find(name);
      switch (goal.presence) {
        case Goal::absent:
          RC_ASSERT(rule == own.end());
          break;
        case Goal::unchanged:
          RC_ASSERT((rule == own.end()) == (before == rules_before_.end()));
          if (rule != own.end()) RC_ASSERT(rule->second == before->second);
          break;
        case Goal::present:
          judge_present(name, device, goal, rule != own.end() ? &rule->second : nullptr);
          break;
      }
    }
    forget_ended_deletions(own);
  }

  void judge_present(const std::string& name, const SliceDevice& device, const Goal& goal,
                     const DeviceRule* rule) {
    const auto deleted = deleted_.find(name);
    const bool stands = deleted != deleted_.end() && deleted->second.value == goal.value;
    if (rule == nullptr) {
      RC_ASSERT(stands || server_.find_rule(name) != nullptr);  // a foreign one
      return;
    }
    RC_ASSERT(rule->has_content_of(rule_for(device, goal)));
    const bool was_made_by_another = rules_before_.contains(name);
    RC_ASSERT(!stands || !respected_.contains(name) || was_made_by_another);
  }

  void forget_ended_deletions(const std::map<std::string, DeviceRule>& own) {
    std::erase_if(deleted_, [&](const auto& one) {
      const auto& [name, alert] = one;
      if (own.contains(name)) return true;
      const DesiredGpu* const gpu = find_gpu(alert.uuid);
      if (alert.value == "cordoned" && gpu != nullptr && !gpu->cordoned) return true;
      const SliceDevice* const device = find_device(name);
      const Goal goal =
          goal_of(device != nullptr ? *device : SliceDevice{"n1", "", "", "", alert.uuid});
      return goal.presence == Goal::absent ||
             (goal.presence == Goal::present && goal.value != alert.value);
    });
    std::erase_if(respected_, [&](const std::string& name) {
      return !deleted_.contains(name) || find_device(name) == nullptr ||
             server_.find_rule(name) != nullptr;
    });
  }

  bool has_slice(const std::string& uuid) const {
    return std::ranges::find(server_.devices, uuid, &SliceDevice::uuid) != server_.devices.end();
  }

  std::set<std::string> known_uuids() const {
    std::set<std::string> uuids;
    for (const DesiredGpu& gpu : desired_.gpus) uuids.insert(gpu.uuid);
    if (!desired_.driver_down) return uuids;
    for (const SliceDevice& device : server_.devices) uuids.insert(device.uuid);
    return uuids;
  }

  Goal taint_goal_of(const std::string& uuid) const {
    const std::string rule = alert_of(uuid);
    if (is_unknown(uuid)) return {};
    if (rule.empty()) return {Goal::absent};
    if (settings_.taint_node == NodeTaintPolicy::any) return {Goal::present, rule};
    if (has_slice(uuid)) return {Goal::absent};
    if (rule == "gpu-lost") return {Goal::present, rule};
    if (!server_.allocatable) return {};
    return {server_.allocatable->contains(uuid) ? Goal::present : Goal::absent, rule};
  }

  void judge_taint() {
    const auto own = own_taints();
    if (settings_.taint_node == NodeTaintPolicy::never) {
      RC_ASSERT(own.empty() != had_taint_);  // as others have left it
      return;
    }
    std::map<std::string, std::string> reasons;
    std::set<std::string> values;
    bool is_uncertain = false;
    for (const std::string& uuid : known_uuids()) {
      const Goal goal = taint_goal_of(uuid);
      if (goal.presence == Goal::unchanged) is_uncertain = true;
      if (goal.presence != Goal::present) continue;
      reasons.emplace(uuid, goal.value);
      values.insert(goal.value);
    }
    if (own.empty()) {
      for (const auto& [uuid, value] : reasons) {
        RC_ASSERT(deleted_taint_.contains(uuid));
        RC_ASSERT(deleted_taint_.at(uuid) == value);
      }
      for (const auto& [uuid, value] : taint_alerts_) {
        const bool is_listed = find_gpu(uuid) != nullptr;
        RC_ASSERT(!had_taint_ || !is_listed || taint_goal_of(uuid).presence != Goal::unchanged);
      }
      std::erase_if(deleted_taint_, [&](const auto& one) {
        const Goal goal = taint_goal_of(one.first);
        const std::string rule = alert_of(one.first);
        return !is_unknown(one.first) && rule != one.second && goal.value != one.second;
      });
      taint_alerts_.clear();
      return;
    }
    RC_ASSERT(own.size() == 1U);
    if (reasons.empty()) {
      RC_ASSERT(had_taint_ && is_uncertain);
    } else {
      RC_ASSERT(own[0].effect == "NoSchedule");
      RC_ASSERT(values.contains(own[0].value));
    }
    deleted_taint_.clear();
    for (const auto& [uuid, value] : taint_alerts_) {
      if (taint_goal_of(uuid).presence == Goal::unchanged) reasons.try_emplace(uuid, value);
    }
    taint_alerts_ = reasons;
  }

  Settings settings_;
  Desired desired_;
  ApiServer server_{std::string(kNodeOfPlan)};
  Memory memory_;
  Moment now_{TimePoint(std::chrono::hours(9)), WallTime(std::chrono::hours(500000))};
  unsigned foreign_ = 0;
  unsigned messages_ = 0;
  std::set<std::string> foreign_uids_;
  std::map<std::string, DeviceRule> rules_at_start_;  // of the batch
  std::map<std::string, DeviceRule> rules_before_;    // the agent began to settle
  bool had_taint_ = false;
  std::map<std::string, PlacedAlert> deleted_;  // by an administrator: may be absent
  std::set<std::string> respected_;             // of those, that the agent saw: must be absent
  std::map<std::string, std::string> taint_alerts_;
  std::map<std::string, std::string> deleted_taint_;
};

rc::Gen<Event> any_event() {
  return rc::gen::construct<Event>(
      rc::gen::map(rc::gen::inRange(0, static_cast<int>(What::count) + 6),
                   [](int what) {  // alerts and deletions are frequent
                     const int count = static_cast<int>(What::count);
                     if (what < count) return static_cast<What>(what);
                     return what % 3 == 0   ? What::delete_rule
                            : what % 3 == 1 ? What::turn_bad
                                            : What::turn_good;
                   }),
      rc::gen::inRange(0U, 36U));
}

rc::Gen<Batch> any_batch() {
  return rc::gen::construct<Batch>(
      rc::gen::mapcat(rc::gen::inRange<std::size_t>(1, 4),
                      [](std::size_t count) {
                        return rc::gen::container<std::vector<Event>>(count, any_event());
                      }),
      rc::gen::container<std::vector<Mishap>>(
          rc::gen::map(rc::gen::inRange(0, static_cast<int>(Mishap::count)),
                       [](int mishap) { return static_cast<Mishap>(mishap); })));
}

void hold_plan(NodeTaintPolicy policy) {
  check_property(fewer_if_sanitized(kCasesOfPlan), [&] {
    Cluster cluster(static_cast<DeviceEffect>(*rc::gen::inRange(0, 3)), policy);
    const auto batches = *rc::gen::container<std::vector<Batch>>(any_batch());
    for (const Batch& batch : batches) cluster.run(batch);
  });
}

TEST(KubePlanProperty, NeededTaintKeepsInvariants) {
  hold_plan(NodeTaintPolicy::needed);
}

TEST(KubePlanProperty, AnyTaintKeepsInvariants) {
  hold_plan(NodeTaintPolicy::any);
}

TEST(KubePlanProperty, NoTaintKeepsInvariants) {
  hold_plan(NodeTaintPolicy::never);
}

}  // namespace
}  // namespace gpuyard::cli::kube
