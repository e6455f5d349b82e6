#include "faces/protocol/alerts.h"

namespace gpuyard::protocol {

Rule::Rule(const andon::Rule& rule) : andon::Rule(rule) {
  if (rule.curve == andon::Curve::none) fixed_severity = rule.severity;
  if (const auto* const events = std::get_if<andon::EventCondition>(&rule.source)) {
    xids = events->xids;
  }
  if (!rule.command.empty()) program = rule.command.front();
}

}  // namespace gpuyard::protocol
