#include "core/control/change_request.h"

#include <fmt/format.h>

#include "base/record.h"

namespace gpuyard::control {
namespace {

struct KindVisitor {
  std::optional<SettingKind> operator()(const SetValue& put) const { return put.setting.kind; }
  std::optional<SettingKind> operator()(const ClearEcc&) const { return std::nullopt; }
  std::optional<SettingKind> operator()(const Reset&) const { return std::nullopt; }
  std::optional<SettingKind> operator()(const auto& job) const { return job.kind; }
};

struct TextVisitor {
  std::string operator()(const SetValue& put) const {
    return fmt::format("set {} to {}", enum_name(put.setting.kind), text_of(put.setting));
  }
  std::string operator()(const Restore& restore) const {
    return fmt::format("restore {}", restore.kind ? enum_name(*restore.kind) : "everything");
  }
  std::string operator()(const ClearEcc& clear) const {
    const bool recent = clear.counter == EccCounter::since_load;
    return fmt::format("clear {} ECC counters", recent ? "volatile" : "aggregate");
  }
  std::string operator()(const Reset&) const { return "reset"; }
  std::string operator()(const Expire& job) const {
    return format_task("end expired claims on", job.kind);
  }
  std::string operator()(const ReconcileSetting& job) const {
    return format_task("reconcile", job.kind);
  }
  std::string operator()(const Suspend& job) const {
    return format_task("restore the original", job.kind);
  }
  std::string operator()(const RollBackChange& job) const {
    return format_task("roll back", job.kind);
  }

  static std::string format_task(std::string_view what, SettingKind kind) {
    return fmt::format("{} {}", what, enum_name(kind));
  }
};

}  // namespace

std::optional<SettingKind> kind_of(const ChangeTask& job) {
  return std::visit(KindVisitor{}, job);
}

std::string text_of(const ChangeTask& job) {
  return std::visit(TextVisitor{}, job);
}

namespace {

// Returns Errc::invalid for a value or a time that is wrong for any GPU.
Result<void> check_set_value(const SetValue& put) {
  if (!put.setting.value) return Error{Errc::invalid, "a setting needs a value"};
  if (put.duration && (*put.duration <= Duration(0) || *put.duration > kMaxClaimDuration)) {
    return Error{Errc::invalid, "a setting must last more than 0 s and at most 366 days"};
  }
  return check_setting(put.setting, SettingState{});
}

QueuedChange queued_change_of(const ChangeRequest& request, ChangeTask job) {
  return {.requester = request.requester,
          .task = std::move(job),
          .force = request.force,
          .dry_run = request.dry_run,
          .exclusive = request.exclusive,
          .authorization_check = request.authorization_check};
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
  const auto* const put = std::get_if<SetValue>(&request.action);
  return put != nullptr ? check_set_value(*put) : Result<void>();
}

ChangeTask task_of(const ChangeAction& action) {
  return std::visit([](const auto& one) -> ChangeTask { return one; }, action);
}

std::vector<QueuedChange> expand(const ChangeRequest& request,
                                 const std::map<SettingKind, ManagedSetting>& holdings) {
  const auto* restore = std::get_if<Restore>(&request.action);
  if (restore == nullptr || restore->kind) {
    return {queued_change_of(request, task_of(request.action))};
  }
  std::vector<QueuedChange> changes_to_make;
  for (const auto& [kind, holding] : holdings) {
    const bool own = find_claim(holding, request.requester.owner) != nullptr;
    if (own || (request.force && !holding.claims.empty())) {
      changes_to_make.push_back(queued_change_of(request, Restore{kind}));
    }
  }
  return changes_to_make;
}

namespace {

std::string expiry_text(const SettingClaim& claim) {
  return claim.until_wall ? "until " + to_rfc3339(*claim.until_wall) : "until restored";
}

struct ClaimsVisitor {
  ManagedSetting& holding;
  const QueuedChange& change;
  const DeviceInfo& gpu;
  Moment moment;

  Result<void> operator()(const SetValue& put) const {
    const bool alone = change.exclusive || !is_shared(holding.kind);
    if (change.force) {
      std::erase_if(holding.claims, [&](const SettingClaim& one) { return one.owner != owner(); });
    } else if (const SettingClaim* other = find_other_claim(); other != nullptr && alone) {
      return conflict_error(*other);
    }
    if (holding.claims.size() >= kMaxClaims && find_claim(holding, owner()) == nullptr) {
      return Error{Errc::busy,
                   fmt::format("{} owners have already set {}", kMaxClaims, target_text())};
    }
    SettingClaim claim{owner(), *put.setting.value, moment.wall};
    if (put.duration) {
      claim.until = moment.now + *put.duration;
      claim.until_wall =
          moment.wall + std::chrono::duration_cast<std::chrono::milliseconds>(*put.duration);
    }
    set_claim(holding, std::move(claim));
    return {};
  }

  Result<void> operator()(const Restore&) const {
    if (change.force && !holding.claims.empty()) {
      holding.claims.clear();
      return {};
    }
    if (remove_claim(holding, owner())) return {};
    if (const SettingClaim* other = find_other_claim()) return conflict_error(*other);
    return Error{Errc::not_found, fmt::format("you have not set {}", target_text())};
  }

  Result<void> operator()(const Expire&) const { return end_expired(); }
  Result<void> operator()(const ReconcileSetting&) const { return end_expired(); }
  Result<void> operator()(const RollBackChange& reinstate) const {
    const SettingClaim* own = find_claim(holding, owner());
    const auto wants = own != nullptr ? std::optional(own->value) : std::nullopt;
    const bool theirs = own == nullptr && !holding.claims.empty() && !is_shared(holding.kind);
    if (wants != reinstate.new_value || theirs) return {};
    remove_claim(holding, owner());
    for (const SettingClaim& claim : reinstate.previous_claims) {
      const bool lost = claim.owner == owner() || reinstate.forced;
      const bool over = claim.until && *claim.until <= moment.now;
      if (lost && !over && find_claim(holding, claim.owner) == nullptr) set_claim(holding, claim);
    }
    return {};
  }
  Result<void> operator()(const auto&) const { return {}; }

 private:
  const std::string& owner() const { return change.requester.owner; }
  std::string target_text() const {
    return fmt::format("the {} of GPU {}", display_name(holding.kind), gpu.index);
  }

  const SettingClaim* find_other_claim() const {
    const auto other = std::ranges::find_if(
        holding.claims, [&](const SettingClaim& one) { return one.owner != owner(); });
    return other == holding.claims.end() ? nullptr : &*other;
  }

  Error conflict_error(const SettingClaim& other) const {
    const bool restoring = std::holds_alternative<Restore>(change.task);
    return {Errc::conflict,
            fmt::format("{} has set {}, {}; {}", other.owner, target_text(), expiry_text(other),
                        restoring ? "only they can restore it, or an administrator with force"
                                  : "ask them, or an administrator, who can use force")};
  }

  Result<void> end_expired() const {
    remove_expired(holding, moment.now);
    return {};
  }
};

}  // namespace

Result<void> change_claims(ManagedSetting& holding, const QueuedChange& order,
                           const DeviceInfo& gpu, Moment moment) {
  return std::visit(ClaimsVisitor{holding, order, gpu, moment}, order.task);
}

}  // namespace gpuyard::control
