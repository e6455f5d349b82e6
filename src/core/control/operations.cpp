#include "core/control/operations.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace gpuyard::control {

const Operation& OperationLog::add(Operation operation) {
  operation.id = fmt::format("{}-{}", epoch_, ++last_number_);
  operation.result.operation_id = operation.id;
  operation.result.outcome = ChangeOutcome::queued;
  if (operations_.size() == kMaxOperations) operations_.pop_front();
  return operations_.emplace_back(std::move(operation));
}

void OperationLog::start(std::string_view id) {
  if (Operation* operation = find_mutable(id)) operation->state = OperationState::running;
}

void OperationLog::finish(std::string_view id, const ChangeResult& result, TimePoint now) {
  Operation* operation = find_mutable(id);
  if (operation == nullptr) return;
  operation->state =
      result.outcome == ChangeOutcome::failed ? OperationState::failed : OperationState::done;
  operation->took = now - operation->received;
  operation->result = result;
}

const Operation* OperationLog::find(std::string_view id) const {
  // The newest are requested most.
  const auto found = std::find_if(operations_.rbegin(), operations_.rend(),
                                  [&](const Operation& one) { return one.id == id; });
  return found == operations_.rend() ? nullptr : &*found;
}

Operation* OperationLog::find_mutable(std::string_view id) {
  return const_cast<Operation*>(std::as_const(*this).find(id));
}

}  // namespace gpuyard::control
