#include "control/change_claims.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::control {
namespace {

std::string until(const Claim& claim) {
  return claim.until_wall ? "until " + to_rfc3339(*claim.until_wall) : "until restored";
}

struct ChangeClaims {
  Holding& holding;
  const Order& order;
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
      return Error{Errc::busy, fmt::format("{} owners have set {} already", kMostClaims, what())};
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
    return Error{Errc::not_found, fmt::format("{} has not set {}", owner(), what())};
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
                        restoring ? "it is theirs to restore, or an administrator's with force"
                                  : "ask them, or an administrator, who may use force")};
  }

  Result<void> end_expired() const {
    remove_expired(holding, moment.now);
    return {};
  }
};

}  // namespace

Result<void> change_claims(Holding& holding, const Order& order, const DeviceInfo& gpu,
                           Moment moment) {
  return std::visit(ChangeClaims{holding, order, gpu, moment}, order.job);
}

}  // namespace gpuyard::control
