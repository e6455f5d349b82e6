#include "core/control/change_request.h"

#include <fmt/format.h>

#include "base/record.h"

namespace gpuyard::control {
namespace {

struct KindOf {
  std::optional<SettingKind> operator()(const Put& put) const { return put.setting.kind; }
  std::optional<SettingKind> operator()(const ClearEcc&) const { return std::nullopt; }
  std::optional<SettingKind> operator()(const Reset&) const { return std::nullopt; }
  std::optional<SettingKind> operator()(const auto& job) const { return job.kind; }
};

struct TextOf {
  std::string operator()(const Put& put) const {
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
  std::string operator()(const Expire& job) const { return of("end expired claims on", job.kind); }
  std::string operator()(const Settle& job) const { return of("reconcile", job.kind); }
  std::string operator()(const Suspend& job) const { return of("restore the original", job.kind); }
  std::string operator()(const Reinstate& job) const { return of("roll back", job.kind); }

  static std::string of(std::string_view what, SettingKind kind) {
    return fmt::format("{} {}", what, enum_name(kind));
  }
};

}  // namespace

std::optional<SettingKind> kind_of(const Job& job) {
  return std::visit(KindOf{}, job);
}

std::string text_of(const Job& job) {
  return std::visit(TextOf{}, job);
}

namespace {

// Returns Errc::invalid for a value or a time that is wrong for any GPU.
Result<void> check_put(const Put& put) {
  if (!put.setting.value) return Error{Errc::invalid, "a setting needs a value"};
  if (put.lasts && (*put.lasts <= Duration(0) || *put.lasts > kLongest)) {
    return Error{Errc::invalid, "a setting must last more than 0 s and at most 366 days"};
  }
  return check(put.setting, SettingState{});
}

QueuedChange order_of(const Request& request, Job job) {
  return {.asker = request.asker,
          .job = std::move(job),
          .force = request.force,
          .dry_run = request.dry_run,
          .exclusive = request.exclusive,
          .right = request.right};
}

}  // namespace

std::string Asker::name() const {
  const std::string by = credential.empty() ? "" : " by " + credential;
  if (principal.empty()) return owner + by;
  return fmt::format("{}{} under lease {} of {}", principal, by, owner.substr(owner.find(':') + 1),
                     lessee);
}

Result<void> check_request(const Request& request) {
  if (request.gpus.empty() || request.gpus.size() > kMostGpus) {
    return Error{Errc::invalid, fmt::format("a request must name 1 to {} GPUs", kMostGpus)};
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
  const auto* const put = std::get_if<Put>(&request.action);
  return put != nullptr ? check_put(*put) : Result<void>();
}

Job job_of(const Action& action) {
  return std::visit([](const auto& one) -> Job { return one; }, action);
}

std::vector<QueuedChange> orders_of(const Request& request,
                                    const std::map<SettingKind, Holding>& holdings) {
  const auto* restore = std::get_if<Restore>(&request.action);
  if (restore == nullptr || restore->kind) {
    return {order_of(request, job_of(request.action))};
  }
  std::vector<QueuedChange> changes_to_make;
  for (const auto& [kind, holding] : holdings) {
    const bool own = find_claim(holding, request.asker.owner) != nullptr;
    if (own || (request.force && !holding.claims.empty())) {
      changes_to_make.push_back(order_of(request, Restore{kind}));
    }
  }
  return changes_to_make;
}

namespace {

std::string until(const Claim& claim) {
  return claim.until_wall ? "until " + to_rfc3339(*claim.until_wall) : "until restored";
}

struct ChangeClaims {
  Holding& holding;
  const QueuedChange& order;
  const DeviceInfo& gpu;
  Moment moment;

  Result<void> operator()(const Put& put) const {
    const bool alone = order.exclusive || !is_shared(holding.kind);
    if (order.force) {
      std::erase_if(holding.claims, [&](const Claim& one) { return one.owner != owner(); });
    } else if (const Claim* other = another(); other != nullptr && alone) {
      return in_the_way(*other);
    }
    if (holding.claims.size() >= kMostClaims && find_claim(holding, owner()) == nullptr) {
      return Error{Errc::busy, fmt::format("{} owners have already set {}", kMostClaims, what())};
    }
    Claim claim{owner(), *put.setting.value, moment.wall};
    if (put.lasts) {
      claim.until = moment.now + *put.lasts;
      claim.until_wall =
          moment.wall + std::chrono::duration_cast<std::chrono::milliseconds>(*put.lasts);
    }
    place_claim(holding, std::move(claim));
    return {};
  }

  Result<void> operator()(const Restore&) const {
    if (order.force && !holding.claims.empty()) {
      holding.claims.clear();
      return {};
    }
    if (remove_claim(holding, owner())) return {};
    if (const Claim* other = another()) return in_the_way(*other);
    return Error{Errc::not_found, fmt::format("you have not set {}", what())};
  }

  Result<void> operator()(const Expire&) const { return end_expired(); }
  Result<void> operator()(const Settle&) const { return end_expired(); }
  Result<void> operator()(const Reinstate& reinstate) const {
    const Claim* own = find_claim(holding, owner());
    const auto wants = own != nullptr ? std::optional(own->wanted) : std::nullopt;
    const bool theirs = own == nullptr && !holding.claims.empty() && !is_shared(holding.kind);
    if (wants != reinstate.made || theirs) return {};
    remove_claim(holding, owner());
    for (const Claim& claim : reinstate.before) {
      const bool lost = claim.owner == owner() || reinstate.forced;
      const bool over = claim.until && *claim.until <= moment.now;
      if (lost && !over && find_claim(holding, claim.owner) == nullptr) place_claim(holding, claim);
    }
    return {};
  }
  Result<void> operator()(const auto&) const { return {}; }

 private:
  const std::string& owner() const { return order.asker.owner; }
  std::string what() const {
    return fmt::format("the {} of GPU {}", words_of(holding.kind), gpu.index);
  }

  const Claim* another() const {
    const auto other = std::ranges::find_if(holding.claims,
                                            [&](const Claim& one) { return one.owner != owner(); });
    return other == holding.claims.end() ? nullptr : &*other;
  }

  Error in_the_way(const Claim& other) const {
    const bool restoring = std::holds_alternative<Restore>(order.job);
    return {Errc::conflict,
            fmt::format("{} has set {}, {}; {}", other.owner, what(), until(other),
                        restoring ? "only they can restore it, or an administrator with force"
                                  : "ask them, or an administrator, who can use force")};
  }

  Result<void> end_expired() const {
    remove_expired(holding, moment.now);
    return {};
  }
};

}  // namespace

Result<void> change_claims(Holding& holding, const QueuedChange& order, const DeviceInfo& gpu,
                           Moment moment) {
  return std::visit(ChangeClaims{holding, order, gpu, moment}, order.job);
}

}  // namespace gpuyard::control
