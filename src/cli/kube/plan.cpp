#include "cli/kube/plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace gpuyard::cli::kube {
namespace {

constexpr std::string_view kNodeKind = "Node";
constexpr std::string_view kGpuPrefix = "GPU-";  // of the UUIDs of NVIDIA's boards
constexpr std::string_view kNoSchedule = "NoSchedule";

// Whether an object should exist, or be there because of one GPU.
enum class Presence : std::uint8_t {
  absent,
  present,
  unchanged,  // nothing is known that would justify a write
};

struct Target {
  Presence presence = Presence::unchanged;
  std::string value = {};
  std::string_view effect = {};
};

std::string_view effect_name(DeviceEffect effect) {
  switch (effect) {
    case DeviceEffect::none:
      return "None";
    case DeviceEffect::no_schedule:
      return kNoSchedule;
    case DeviceEffect::no_execute:
      return "NoExecute";
  }
  return "None";
}

// A cordon lets the pods end that run.
DeviceEffect cordon_effect(DeviceEffect effect) {
  return effect == DeviceEffect::no_execute ? DeviceEffect::no_schedule : effect;
}

bool is_own(const SeenTaint& taint) {
  return taint.key == kNodeTaintKey;
}

// A value has no character that JSON escapes.
std::string taint_json(std::string_view value) {
  return fmt::format(R"({{"key":"{}","value":"{}","effect":"{}"}})", kNodeTaintKey, value,
                     kNoSchedule);
}

std::string alert_value(const DesiredGpu& gpu) {
  std::string value = taint_value(gpu.rule);
  return value.empty() ? "bad" : value;
}

// One comparison. Members are in the order in which they are used.
class Planner {
 public:
  Planner(const Settings& settings, const Desired& desired, const Seen& seen, Memory& memory,
          const Moment& now)
      : settings_(settings), desired_(desired), seen_(seen), memory_(memory), now_(now) {}

  std::vector<Step> plan() {
    if (!seen_.node || seen_.node->name != settings_.node) return {};
    follow_node();
    plan_condition();
    if (!desired_.is_known) return std::move(steps_);
    select_devices();
    list_gpus();
    time_allocatable();
    plan_rules();
    plan_taint();
    return std::move(steps_);
  }

 private:
  const SeenNode& node() const { return *seen_.node; }

  // Objects of a Node with another uid were deleted with it, not by an administrator.
  void follow_node() {
    if (memory_.node_uid == node().uid) return;
    memory_.node_uid = node().uid;
    memory_.standing_rules.clear();
    memory_.deleted_rules.clear();
    memory_.taint_stands = false;
    memory_.taint_alerts.clear();
    memory_.deleted_taint_alerts.clear();
  }

  void plan_condition() {
    if (!desired_.condition) return;
    const auto& seen = node().condition;
    if (seen && seen->text == *desired_.condition) return;
    const bool same_status = seen && seen->text.status == desired_.condition->status;
    if (same_status && seen->text.reason == desired_.condition->reason && is_recent(*seen)) return;
    const bool has_time = same_status && seen->changed_at != WallTime{};
    steps_.emplace_back(WriteCondition{settings_.condition_type, *desired_.condition,
                                       has_time ? seen->changed_at : now_.wall, now_.wall});
  }

  // A time to come is of a clock that was set back.
  bool is_recent(const SeenCondition& seen) const {
    return seen.written_at <= now_.wall && now_.wall - seen.written_at < kMessageInterval;
  }

  // The devices of this node whose GPU is known, each once. An empty part of a selector would
  // select more than the device.
  void select_devices() {
    for (const SliceDevice& device : seen_.devices) {
      if (device.node != settings_.node || device.uuid.empty()) continue;
      if (device.driver.empty() || device.pool.empty() || device.device.empty()) continue;
      devices_.emplace(device_rule_name(settings_.node, device), &device);
    }
  }

  // The GPUs of the verdict. Without a driver, also those that the cluster knows.
  void list_gpus() {
    gpus_ = desired_.gpus;
    if (!desired_.driver_down) return;
    for (DesiredGpu& gpu : gpus_) {
      if (gpu.verdict != Verdict::bad) mark_driver_down(gpu);
    }
    for (const auto& [name, device] : devices_) {
      if (device->uuid.starts_with(kGpuPrefix)) add_unlisted(device->uuid);
    }
    if (seen_.allocatable) {
      for (const std::string& uuid : *seen_.allocatable) add_unlisted(uuid);
    }
    if (gpus_.empty()) add_unlisted("");  // for a node that is tainted for any alert
  }

  static void mark_driver_down(DesiredGpu& gpu) {
    gpu.verdict = Verdict::bad;
    gpu.rule = kDriverDownRule;
  }

  void add_unlisted(const std::string& uuid) {
    if (find_gpu(uuid) != nullptr) return;
    DesiredGpu gpu{std::numeric_limits<std::uint32_t>::max(), uuid};
    mark_driver_down(gpu);
    gpus_.push_back(std::move(gpu));
  }

  const DesiredGpu* find_gpu(const std::string& uuid) const {
    const auto found = std::ranges::find(gpus_, uuid, &DesiredGpu::uuid);
    return found != gpus_.end() ? &*found : nullptr;
  }

  // A kubelet that does not answer changes nothing; nor does a GPU that is unknown for a while.
  void time_allocatable() {
    std::erase_if(memory_.allocatable_since, [&](const auto& one) {
      const DesiredGpu* const gpu = find_gpu(one.first);
      return gpu == nullptr || gpu->verdict == Verdict::good;
    });
    // A plugin that a lost GPU has ended offers none for a while, and comes back.
    if (node().has_plugin_gpus) memory_.plugin_seen = true;
    if (!seen_.allocatable) return;
    if (!seen_.allocatable->empty()) memory_.plugin_seen = true;
    for (const DesiredGpu& gpu : gpus_) {
      if (gpu.verdict != Verdict::bad) continue;
      if (seen_.allocatable->contains(gpu.uuid)) {
        memory_.allocatable_since.try_emplace(gpu.uuid, now_.boot);
      } else {
        memory_.allocatable_since.erase(gpu.uuid);
      }
    }
  }

  // --- Rules ---

  void plan_rules() {
    // A rule that is not served, or no longer, was not deleted.
    if (seen_.api == ResourceApi::none) return memory_.standing_rules.clear();
    for (const DeviceRule& rule : seen_.rules) rules_.emplace(rule.name, &rule);
    forget_ended_deletions();
    for (const auto& [name, device] : devices_) plan_rule(name, *device);
    // Last: where a GPU got another device, that one is tainted before the old one is free.
    for (const auto& [name, rule] : rules_) {
      if (kube::is_own(*rule, settings_.node) && !devices_.contains(name)) remove_rule(*rule);
    }
    std::erase_if(memory_.standing_rules, [&](const auto& one) {
      return !devices_.contains(one.first) && !rules_.contains(one.first);
    });
  }

  const DeviceRule* find_rule(const std::string& name) const {
    const auto found = rules_.find(name);
    return found != rules_.end() ? found->second : nullptr;
  }

  // An administrator's deletion is respected until the alert changes.
  void forget_ended_deletions() {
    std::erase_if(memory_.deleted_rules, [&](const auto& one) {
      const auto& [name, deleted] = one;
      const Target target = target_of(deleted.uuid, deleted.value);
      if (target.presence == Presence::present) return target.value != deleted.value;
      const bool gone = find_gpu(deleted.uuid) == nullptr && !devices_.contains(name);
      return target.presence == Presence::absent || gone;
    });
  }

  // `standing`: the value that the cluster has; empty: none.
  Target target_of(const std::string& uuid, std::string_view standing) const {
    const DesiredGpu* const gpu = find_gpu(uuid);
    if (gpu == nullptr) return {};
    Target cordon{Presence::present, std::string(kCordonValue),
                  effect_name(cordon_effect(settings_.effect))};
    switch (gpu->verdict) {
      case Verdict::bad:
        return {Presence::present, alert_value(*gpu), effect_name(settings_.effect)};
      case Verdict::good:
        return gpu->cordoned ? cordon : Target{Presence::absent};
      case Verdict::unknown:
        break;
    }
    // Whether the alert goes on is unknown, whether the GPU is cordoned is not.
    const bool of_alert = !standing.empty() && standing != kCordonValue;
    if (of_alert) return {};
    if (gpu->cordoned) return cordon;
    return standing.empty() ? Target{} : Target{Presence::absent};
  }

  void plan_rule(const std::string& name, const SliceDevice& device) {
    const DeviceRule* const rule = find_rule(name);
    const bool is_foreign = rule != nullptr && !kube::is_own(*rule, settings_.node);
    if (rule == nullptr || is_foreign) record_deleted_rule(name);
    if (is_foreign) return;
    if (rule != nullptr && rule->owner->uid == node().uid) {
      memory_.standing_rules.insert_or_assign(name, PlacedAlert{device.uuid, rule->value});
      memory_.deleted_rules.erase(name);
    }
    const Target target = target_of(device.uuid, rule != nullptr ? rule->value : "");
    switch (target.presence) {
      case Presence::unchanged:
        return;
      case Presence::absent:
        if (rule != nullptr) remove_rule(*rule);
        return;
      case Presence::present:
        break;
    }
    const DeviceRule wanted = make_rule(name, device, target);
    if (rule != nullptr && rule->has_content_of(wanted)) return;
    const auto deleted = memory_.deleted_rules.find(name);
    if (deleted != memory_.deleted_rules.end() && deleted->second.value == target.value) return;
    if (rule != nullptr) remove_rule(*rule);
    steps_.emplace_back(CreateRule{wanted});
  }

  // The agent forgets a standing rule before it deletes one itself.
  void record_deleted_rule(const std::string& name) {
    auto stood = memory_.standing_rules.extract(name);
    if (stood.empty()) return;
    const Target target = target_of(stood.mapped().uuid, stood.mapped().value);
    const bool goes_on =
        target.presence == Presence::unchanged ||
        (target.presence == Presence::present && target.value == stood.mapped().value);
    if (goes_on) memory_.deleted_rules.insert_or_assign(name, stood.mapped());
  }

  DeviceRule make_rule(const std::string& name, const SliceDevice& device,
                       const Target& target) const {
    return {.name = name,
            .label = node_label(settings_.node),
            .owner = Owner{std::string(kNodeKind), settings_.node, node().uid},
            .driver = device.driver,
            .pool = device.pool,
            .device = device.device,
            .key = std::string(kDeviceTaintKey),
            .value = target.value,
            .effect = std::string(target.effect)};
  }

  void remove_rule(const DeviceRule& rule) { steps_.emplace_back(DeleteRule{rule.name, rule.uid}); }

  // --- The node's taint ---

  // Whether the GPU is a reason to taint the node.
  Presence reason_of(const DesiredGpu& gpu) const {
    if (gpu.verdict == Verdict::unknown) return Presence::unchanged;
    if (gpu.verdict == Verdict::good) return Presence::absent;
    if (settings_.taint_node == NodeTaintPolicy::any) return Presence::present;
    if (has_slice(gpu.uuid)) return Presence::absent;
    if (!memory_.plugin_seen) return Presence::absent;
    if (gpu.is_lost()) return Presence::present;
    if (!seen_.allocatable) return Presence::unchanged;
    const auto since = memory_.allocatable_since.find(gpu.uuid);
    if (since == memory_.allocatable_since.end()) return Presence::absent;
    // Within the timeout an agent that has lost its memory removes no taint either.
    return now_.boot - since->second >= kPluginTimeout ? Presence::present : Presence::unchanged;
  }

  bool has_slice(const std::string& uuid) const {
    return std::ranges::any_of(devices_, [&](const auto& one) { return one.second->uuid == uuid; });
  }

  void plan_taint() {
    const auto own =
        std::ranges::find_if(node().taints, [](const auto& one) { return is_own(one); });
    const bool stands = own != node().taints.end();
    // An agent that may never taint its node has no right to patch it.
    if (settings_.taint_node == NodeTaintPolicy::never) return forget_taint();
    record_taint(stands);
    std::map<std::string, std::string> reasons;  // value by UUID
    std::string first;                           // of the reasons that no administrator refused
    bool fits = false;
    for (const DesiredGpu& gpu : gpus_) {
      if (reason_of(gpu) != Presence::present) continue;
      const std::string value = alert_value(gpu);
      reasons.emplace(gpu.uuid, value);
      if (memory_.deleted_taint_alerts.contains(gpu.uuid)) continue;
      if (first.empty()) first = value;
      fits = fits || (stands && own->value == value);
    }
    const bool keeps = first.empty() && stands && may_go_on();
    if (stands) update_taint_alerts(std::move(reasons));
    if (keeps) return;
    if (fits && is_only_own(*own)) return;
    if (stands || !first.empty()) patch_taints(first);
  }

  bool is_only_own(const SeenTaint& taint) const {
    return taint.effect == kNoSchedule &&
           std::ranges::count_if(node().taints, [](const auto& one) { return is_own(one); }) == 1;
  }

  void forget_taint() {
    memory_.taint_stands = false;
    memory_.taint_alerts.clear();
    memory_.deleted_taint_alerts.clear();
  }

  void record_taint(bool stands) {
    if (stands) memory_.deleted_taint_alerts.clear();
    if (!stands && memory_.taint_stands) memory_.deleted_taint_alerts = memory_.taint_alerts;
    if (!stands) memory_.taint_alerts.clear();
    memory_.taint_stands = stands;
    std::erase_if(memory_.deleted_taint_alerts, [&](const auto& one) {
      const DesiredGpu* const gpu = find_gpu(one.first);
      if (gpu == nullptr) return desired_.is_complete;
      return gpu->verdict == Verdict::good ||
             (gpu->verdict == Verdict::bad && alert_value(*gpu) != one.second);
    });
  }

  // Whether an alert that the standing taint is for may still be there, unseen.
  bool may_go_on() const {
    const auto is_uncertain = [&](const std::string& uuid) {
      const DesiredGpu* const gpu = find_gpu(uuid);
      return gpu == nullptr ? !desired_.is_complete : reason_of(*gpu) == Presence::unchanged;
    };
    if (!memory_.taint_alerts.empty()) {
      return std::ranges::any_of(memory_.taint_alerts,
                                 [&](const auto& one) { return is_uncertain(one.first); });
    }
    // The agent has lost its memory: it may be any GPU.
    return !desired_.is_complete || std::ranges::any_of(gpus_, [&](const DesiredGpu& gpu) {
      return reason_of(gpu) == Presence::unchanged;
    });
  }

  // Keeps the alerts that may still be active.
  void update_taint_alerts(std::map<std::string, std::string> reasons) {
    for (auto& [uuid, value] : memory_.taint_alerts) {
      const DesiredGpu* const gpu = find_gpu(uuid);
      const bool uncertain =
          gpu == nullptr ? !desired_.is_complete : reason_of(*gpu) == Presence::unchanged;
      if (uncertain) reasons.try_emplace(uuid, value);
    }
    memory_.taint_alerts = std::move(reasons);
  }

  // `value`: of ours; empty: without ours.
  void patch_taints(std::string_view value) {
    PatchTaints patch{node().resource_version, foreign_taints(node()), !value.empty()};
    if (patch.has_own) patch.taints.push_back(taint_json(value));
    steps_.emplace_back(std::move(patch));
  }

  const Settings& settings_;
  const Desired& desired_;
  const Seen& seen_;
  Memory& memory_;
  const Moment& now_;
  std::vector<Step> steps_;
  std::map<std::string, const SliceDevice*> devices_;  // by the name of their rule
  std::vector<DesiredGpu> gpus_;
  std::map<std::string, const DeviceRule*> rules_;  // by name
};

}  // namespace

bool DeviceRule::has_content_of(const DeviceRule& other) const {
  DeviceRule same = other;
  same.uid = uid;
  return *this == same;
}

std::vector<Step> plan(const Settings& settings, const Desired& desired, const Seen& seen,
                       Memory& memory, const Moment& now) {
  return Planner(settings, desired, seen, memory, now).plan();
}

std::vector<std::string> foreign_taints(const SeenNode& node) {
  std::vector<std::string> taints;
  for (const SeenTaint& taint : node.taints) {
    if (!is_own(taint)) taints.push_back(taint.json);
  }
  return taints;
}

void prepare(Memory& memory, const Step& step) {
  if (const auto* const removal = std::get_if<DeleteRule>(&step)) {
    memory.standing_rules.erase(removal->name);
  } else if (const auto* const patch = std::get_if<PatchTaints>(&step)) {
    if (!patch->has_own) memory.taint_stands = false;
  }
}

bool is_own(const DeviceRule& rule, std::string_view node) {
  return rule.label == node_label(node) && rule.key == kDeviceTaintKey && rule.owner &&
         rule.owner->kind == kNodeKind && rule.owner->name == node;
}

}  // namespace gpuyard::cli::kube
