#include "control/orders.h"

#include <fmt/format.h>

namespace gpuyard::control {
namespace {

// What is wrong with what is asked for, whatever GPU it is asked of.
struct CheckAction {
  Result<void> operator()(const Put& put) const {
    if (!put.setting.value) return Error{Errc::invalid, "a setting needs a value"};
    if (put.lasts && (*put.lasts <= Duration(0) || *put.lasts > kLongest)) {
      return Error{Errc::invalid, "a setting lasts for more than 0 s and at most 366 days"};
    }
    return check(put.setting, SettingState{});
  }
  Result<void> operator()(const auto&) const { return {}; }
};

Order order_of(const Request& request, Job job) {
  Order order;
  order.asker = request.asker;
  order.job = std::move(job);
  order.force = request.force;
  order.dry_run = request.dry_run;
  order.exclusive = request.exclusive;
  order.right = request.right;
  return order;
}

}  // namespace

std::string Asker::name() const {
  if (principal.empty()) return owner;
  return fmt::format("{} under lease {} of {}", principal, owner.substr(owner.find(':') + 1),
                     lessee);
}

Result<void> check_request(const Request& request) {
  if (request.gpus.empty() || request.gpus.size() > kMostGpus) {
    return Error{Errc::invalid, fmt::format("a request is for 1 to {} GPUs", kMostGpus)};
  }
  const bool resets = std::holds_alternative<Reset>(request.action);
  const bool clears = std::holds_alternative<ClearEcc>(request.action);
  if (resets && request.gpus.size() > 1) {
    return Error{Errc::invalid, "one GPU is reset at a time"};
  }
  if (request.atomic && (resets || clears)) {
    return Error{Errc::invalid, "what is reset or cleared cannot be rolled back: not atomic"};
  }
  return std::visit(CheckAction{}, request.action);
}

Job job_of(const Action& action) {
  return std::visit([](const auto& one) -> Job { return one; }, action);
}

std::vector<Order> orders_of(const Request& request,
                             const std::map<SettingKind, Holding>& holdings) {
  const auto* restore = std::get_if<Restore>(&request.action);
  if (restore == nullptr || restore->kind) {
    return {order_of(request, job_of(request.action))};
  }
  std::vector<Order> orders;
  for (const auto& [kind, holding] : holdings) {
    const bool own = find_claim(holding, request.asker.owner) != nullptr;
    if (own || (request.force && !holding.claims.empty())) {
      orders.push_back(order_of(request, Restore{kind}));
    }
  }
  return orders;
}

}  // namespace gpuyard::control
