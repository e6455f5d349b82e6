#include "control/operations.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::control {

const Operation& Operations::add(Operation operation) {
  operation.id = fmt::format("{}-{}", epoch_, ++last_);
  operation.change.operation = operation.id;
  operation.change.outcome = Outcome::queued;
  if (operations_.size() == kKept) operations_.pop_front();
  return operations_.emplace_back(std::move(operation));
}

void Operations::running(std::string_view id) {
  if (Operation* operation = find_mine(id)) operation->state = OperationState::running;
}

void Operations::over(std::string_view id, const Change& change, TimePoint now) {
  Operation* operation = find_mine(id);
  if (operation == nullptr) return;
  operation->state =
      change.outcome == Outcome::failed ? OperationState::failed : OperationState::done;
  operation->took = now - operation->received;
  operation->change = change;
}

const Operation* Operations::find(std::string_view id) const {
  // The newest are asked for most.
  const auto found = std::find_if(operations_.rbegin(), operations_.rend(),
                                  [&](const Operation& one) { return one.id == id; });
  return found == operations_.rend() ? nullptr : &*found;
}

Operation* Operations::find_mine(std::string_view id) {
  return const_cast<Operation*>(std::as_const(*this).find(id));
}

}  // namespace gpuyard::control
