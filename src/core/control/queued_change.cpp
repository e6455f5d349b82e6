#include "core/control/queued_change.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/record.h"

namespace gpuyard::control {
namespace {

struct KindVisitor {
  std::optional<SettingKind> operator()(const SetValue& set_value) const {
    return set_value.setting.kind;
  }
  std::optional<SettingKind> operator()(const ClearEcc&) const { return std::nullopt; }
  std::optional<SettingKind> operator()(const Reset&) const { return std::nullopt; }
  std::optional<SettingKind> operator()(const auto& task) const { return task.kind; }
};

struct TextVisitor {
  std::string operator()(const SetValue& set_value) const {
    return fmt::format("set {} to {}", enum_name(set_value.setting.kind),
                       text_of(set_value.setting));
  }
  std::string operator()(const Restore& restore) const {
    return fmt::format("restore {}", restore.kind ? enum_name(*restore.kind) : "everything");
  }
  std::string operator()(const ClearEcc& clear) const {
    const bool recent = clear.counter == EccCounter::since_load;
    return fmt::format("clear {} ECC counters", recent ? "volatile" : "aggregate");
  }
  std::string operator()(const Reset&) const { return "reset"; }
  std::string operator()(const Expire& task) const {
    return format_task("end expired claims on", task.kind);
  }
  std::string operator()(const ReconcileSetting& task) const {
    return format_task("reconcile", task.kind);
  }
  std::string operator()(const Suspend& task) const {
    return format_task("restore the original", task.kind);
  }
  std::string operator()(const RollBackChange& task) const {
    return format_task("roll back", task.kind);
  }

  static std::string format_task(std::string_view what, SettingKind kind) {
    return fmt::format("{} {}", what, enum_name(kind));
  }
};

QueuedChange queued_change_of(const ChangeRequest& request, ChangeTask task) {
  return {.requester = request.requester,
          .task = std::move(task),
          .force = request.force,
          .dry_run = request.dry_run,
          .exclusive = request.exclusive,
          .authorization_check = request.authorization_check};
}

std::string expiry_text(const SettingClaim& claim) {
  return claim.until_wall ? "until " + to_rfc3339(*claim.until_wall) : "until restored";
}

struct ClaimsVisitor {
  ManagedSetting& managed;
  const QueuedChange& change;
  const DeviceInfo& gpu;
  Moment moment;

  Result<void> operator()(const SetValue& set_value) const {
    const bool exclusive = change.exclusive || !is_shared(managed.kind);
    if (change.force) {
      std::erase_if(managed.claims, [&](const SettingClaim& one) { return one.owner != owner(); });
    } else if (const SettingClaim* other = find_other_claim(); other != nullptr && exclusive) {
      return conflict_error(*other);
    }
    if (managed.claims.size() >= kMaxClaims && find_claim(managed, owner()) == nullptr) {
      return Error{Errc::busy,
                   fmt::format("{} owners have already set {}", kMaxClaims, target_text())};
    }
    SettingClaim claim{owner(), *set_value.setting.value, moment.wall};
    if (set_value.duration) {
      claim.until = moment.now + *set_value.duration;
      claim.until_wall =
          moment.wall + std::chrono::duration_cast<std::chrono::milliseconds>(*set_value.duration);
    }
    set_claim(managed, std::move(claim));
    return {};
  }

  Result<void> operator()(const Restore&) const {
    if (change.force && !managed.claims.empty()) {
      managed.claims.clear();
      return {};
    }
    if (remove_claim(managed, owner())) return {};
    if (const SettingClaim* other = find_other_claim()) return conflict_error(*other);
    return Error{Errc::not_found, fmt::format("you have not set {}", target_text())};
  }

  Result<void> operator()(const Expire&) const { return end_expired(); }
  Result<void> operator()(const ReconcileSetting&) const { return end_expired(); }
  Result<void> operator()(const RollBackChange& rollback) const {
    const SettingClaim* own = find_claim(managed, owner());
    const auto own_value = own != nullptr ? std::optional(own->value) : std::nullopt;
    const bool theirs = own == nullptr && !managed.claims.empty() && !is_shared(managed.kind);
    if (own_value != rollback.new_value || theirs) return {};
    remove_claim(managed, owner());
    for (const SettingClaim& claim : rollback.previous_claims) {
      const bool lost = claim.owner == owner() || rollback.forced;
      const bool over = claim.until && *claim.until <= moment.now;
      if (lost && !over && find_claim(managed, claim.owner) == nullptr) set_claim(managed, claim);
    }
    return {};
  }
  Result<void> operator()(const auto&) const { return {}; }

 private:
  const std::string& owner() const { return change.requester.owner; }
  std::string target_text() const {
    return fmt::format("the {} of GPU {}", display_name(managed.kind), gpu.index);
  }

  const SettingClaim* find_other_claim() const {
    const auto other = std::ranges::find_if(
        managed.claims, [&](const SettingClaim& one) { return one.owner != owner(); });
    return other == managed.claims.end() ? nullptr : &*other;
  }

  Error conflict_error(const SettingClaim& other) const {
    const bool restoring = std::holds_alternative<Restore>(change.task);
    return {Errc::conflict,
            fmt::format("{} has set {}, {}; {}", other.owner, target_text(), expiry_text(other),
                        restoring ? "only they can restore it, or an administrator with force"
                                  : "ask them, or an administrator, who can use force")};
  }

  Result<void> end_expired() const {
    remove_expired(managed, moment.now);
    return {};
  }
};

}  // namespace

std::optional<SettingKind> kind_of(const ChangeTask& task) {
  return std::visit(KindVisitor{}, task);
}

std::string text_of(const ChangeTask& task) {
  return std::visit(TextVisitor{}, task);
}

ChangeTask task_of(const ChangeAction& action) {
  return std::visit([](const auto& one) -> ChangeTask { return one; }, action);
}

std::vector<QueuedChange> expand(const ChangeRequest& request,
                                 const std::map<SettingKind, ManagedSetting>& managed_settings) {
  const auto* restore = std::get_if<Restore>(&request.action);
  if (restore == nullptr || restore->kind) {
    return {queued_change_of(request, task_of(request.action))};
  }
  std::vector<QueuedChange> changes_to_make;
  for (const auto& [kind, managed] : managed_settings) {
    const bool own = find_claim(managed, request.requester.owner) != nullptr;
    if (own || (request.force && !managed.claims.empty())) {
      changes_to_make.push_back(queued_change_of(request, Restore{kind}));
    }
  }
  return changes_to_make;
}

Result<void> change_claims(ManagedSetting& managed, const QueuedChange& change,
                           const DeviceInfo& gpu, Moment moment) {
  return std::visit(ClaimsVisitor{managed, change, gpu, moment}, change.task);
}

}  // namespace gpuyard::control
