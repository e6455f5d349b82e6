// Recent operations: those that wait, those that run, and the last that have ended.
//
// Thread: io.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "core/control/change_result.h"

namespace gpuyard::control {

enum class OperationState : std::uint8_t { queued, running, done, failed };
BOOST_DESCRIBE_ENUM(OperationState, queued, running, done, failed)

struct Operation {
  OperationState state = OperationState::queued;
  std::string id = {};
  std::string action;
  std::string requested_by;
  std::string request_id;
  TimePoint received{};
  WallTime requested_at{};
  std::optional<Duration> took = {};
  ChangeResult result = {};
};

class OperationLog {
 public:
  // An id is valid for one run of the daemon: it contains `epoch`.
  explicit OperationLog(std::string epoch) : epoch_(std::move(epoch)) {}

  // Adds a queued operation, and gives it an id.
  const Operation& add(Operation);
  void start(std::string_view id);
  void finish(std::string_view id, const ChangeResult&, TimePoint now);

  const Operation* find(std::string_view id) const;
  const std::deque<Operation>& all() const { return operations_; }

  // The number of operations that are kept. Fewer can be in progress for all GPUs at once, so that
  // a dropped operation has always ended.
  static constexpr std::size_t kMaxOperations = 8192;

 private:
  Operation* find_mutable(std::string_view id);

  std::string epoch_;
  std::uint64_t last_number_ = 0;
  std::deque<Operation> operations_;
};

}  // namespace gpuyard::control
