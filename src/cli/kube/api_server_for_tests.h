// A model of the API server with one Node and the device rules. It refuses what the real one
// refuses: a patch of an old resourceVersion, a second object of a name, a delete of another uid.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/kube/plan.h"

namespace gpuyard::cli::kube {

enum class Answer { ok, conflict, not_found };

class ApiServer {
  static auto has_name(const std::string& name) {
    return [name](const DeviceRule& rule) { return rule.name == name; };
  }

 public:
  explicit ApiServer(std::string node) {
    node_.name = std::move(node);
    node_.uid = new_uid();
    touch_node();
  }

  // The world changes.
  SeenNode& node() { return node_; }
  const std::vector<DeviceRule>& rules() const { return rules_; }
  std::vector<SliceDevice> devices;
  ResourceApi api = ResourceApi::v1;
  std::optional<std::set<std::string>> allocatable = std::set<std::string>{};

  void touch_node() { node_.resource_version = std::to_string(++version_); }

  void recreate_node(bool sweep) {
    node_.uid = new_uid();
    node_.condition.reset();
    node_.taints.clear();
    touch_node();
    if (sweep) sweep_rules();
  }
  // Deletes the rules whose owner is gone, as the garbage collector does some time later.
  void sweep_rules() {
    std::erase_if(rules_, [&](const DeviceRule& rule) {
      return rule.owner && rule.owner->name == node_.name && rule.owner->uid != node_.uid;
    });
  }

  void add_taint(std::string_view key, std::string_view json) {
    node_.taints.push_back({std::string(key), "", "NoSchedule", std::string(json)});
    touch_node();
  }
  void remove_taints(std::string_view key) {
    std::erase_if(node_.taints, [&](const SeenTaint& taint) { return taint.key == key; });
    touch_node();
  }
  void add_rule(DeviceRule rule) {
    rule.uid = new_uid();
    rules_.push_back(std::move(rule));
  }
  void remove_rule(const std::string& name) { std::erase_if(rules_, has_name(name)); }
  const DeviceRule* find_rule(const std::string& name) const {
    const auto found = std::ranges::find_if(rules_, has_name(name));
    return found != rules_.end() ? &*found : nullptr;
  }

  // The agent reads. A rule without its label is found by its name only.
  Seen read(const std::set<std::string>& by_name = {}) const {
    Seen seen{node_, api, devices, {}, allocatable};
    if (api == ResourceApi::none) return seen;
    for (const DeviceRule& rule : rules_) {
      if (rule.label == node_label(node_.name) || by_name.contains(rule.name)) {
        seen.rules.push_back(rule);
      }
    }
    return seen;
  }

  // The agent writes.
  Answer apply(const Step& step) {
    return std::visit([&](const auto& one) { return write(one); }, step);
  }

 private:
  std::string new_uid() { return fmt::format("uid-{}", ++last_uid_); }

  Answer write(const WriteCondition& step) {
    node_.condition = SeenCondition{step.text, step.changed_at, step.written_at};
    touch_node();
    return Answer::ok;
  }
  Answer write(const CreateRule& step) {
    if (find_rule(step.rule.name) != nullptr) return Answer::conflict;
    add_rule(step.rule);
    return Answer::ok;
  }
  Answer write(const DeleteRule& step) {
    const DeviceRule* const rule = find_rule(step.name);
    if (rule == nullptr) return Answer::not_found;
    if (rule->uid != step.uid) return Answer::conflict;
    remove_rule(step.name);
    return Answer::ok;
  }
  Answer write(const PatchTaints& step) {
    if (step.resource_version != node_.resource_version) return Answer::conflict;
    std::vector<SeenTaint> taints;
    for (const std::string& json : step.taints) taints.push_back(parse_taint(json));
    node_.taints = std::move(taints);
    touch_node();
    return Answer::ok;
  }

  // A taint of another is known by its text. Of ours, the text is the agent's.
  SeenTaint parse_taint(const std::string& json) const {
    const auto same = std::ranges::find(node_.taints, json, &SeenTaint::json);
    if (same != node_.taints.end()) return *same;
    return {text_behind(json, "\"key\":\""), text_behind(json, "\"value\":\""),
            text_behind(json, "\"effect\":\""), json};
  }
  static std::string text_behind(const std::string& json, std::string_view mark) {
    const std::size_t start = json.find(mark);
    if (start == std::string::npos) return "";
    const std::size_t begin = start + mark.size();
    return json.substr(begin, json.find('"', begin) - begin);
  }

  SeenNode node_;
  std::vector<DeviceRule> rules_;
  unsigned version_ = 0;
  unsigned last_uid_ = 0;
};

}  // namespace gpuyard::cli::kube
