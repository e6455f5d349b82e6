#include "core/andon/alert.h"

#include <algorithm>

namespace gpuyard::andon {
namespace {

constexpr std::string_view kOwnerPrefix = "andon:";

}  // namespace

int worst_severity(const Alert& alert) {
  return std::max(alert.severity, alert.notified_severity.value_or(0));
}

std::string key_of(const Alert& alert) {
  return alert.rule + "/" + (alert.gpu.empty() ? "node" : alert.gpu);
}

std::string owner_of_cap(std::string_view rule) {
  return std::string(kOwnerPrefix) + std::string(rule);
}

std::string_view rule_of_owner(std::string_view owner) {
  return owner.starts_with(kOwnerPrefix) ? owner.substr(kOwnerPrefix.size()) : std::string_view{};
}

}  // namespace gpuyard::andon
