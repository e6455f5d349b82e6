#include "core/control/change_request.h"

#include <fmt/format.h>

namespace gpuyard::control {
namespace {

// Returns Errc::invalid for a value or a time that is wrong for any GPU.
Result<void> check_set_value(const SetValue& set_value) {
  if (!set_value.setting.value) return Error{Errc::invalid, "a setting needs a value"};
  if (set_value.duration &&
      (*set_value.duration <= Duration(0) || *set_value.duration > kMaxClaimDuration)) {
    return Error{Errc::invalid, "a setting must last more than 0 s and at most 366 days"};
  }
  return check_setting(set_value.setting, SettingState{});
}

}  // namespace

std::string ChangeRequester::name() const {
  const std::string by = credential.empty() ? "" : " by " + credential;
  if (principal.empty()) return owner + by;
  return fmt::format("{}{} under lease {} of {}", principal, by, owner.substr(owner.find(':') + 1),
                     lease_holder);
}

Result<void> check_request(const ChangeRequest& request) {
  if (request.gpus.empty() || request.gpus.size() > kMaxGpus) {
    return Error{Errc::invalid, fmt::format("a request must name 1 to {} GPUs", kMaxGpus)};
  }
  const bool resets = std::holds_alternative<Reset>(request.action);
  const bool clears = std::holds_alternative<ClearEcc>(request.action);
  if (resets && request.gpus.size() > 1) {
    return Error{Errc::invalid, "only one GPU can be reset at a time"};
  }
  if (request.atomic && (resets || clears)) {
    return Error{Errc::invalid,
                 "resets and cleared counters cannot be rolled back, so they cannot be atomic"};
  }
  const auto* const set_value = std::get_if<SetValue>(&request.action);
  return set_value != nullptr ? check_set_value(*set_value) : Result<void>();
}

}  // namespace gpuyard::control
