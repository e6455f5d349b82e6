// What was asked for lately: what waits, what runs, and the last that are over. Lives on the io
// thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "control/order.h"

namespace gpuyard::control {

enum class OperationState : std::uint8_t { queued, running, done, failed };
BOOST_DESCRIBE_ENUM(OperationState, queued, running, done, failed)

struct Operation {
  OperationState state = OperationState::queued;
  std::string id;
  std::string action;
  std::string asked_by;
  std::string request_id;
  TimePoint received{};
  WallTime asked_at{};
  std::optional<Duration> took = {};
  Change change = {};
};

class Operations {
 public:
  // Ids mean something in one life of the daemon: `epoch` is in them.
  explicit Operations(std::string epoch) : epoch_(std::move(epoch)) {}

  // Gives it an id.
  const Operation& add(Operation);
  void running(std::string_view id);
  void over(std::string_view id, const Change&, TimePoint now);

  const Operation* find(std::string_view id) const;
  const std::deque<Operation>& all() const { return operations_; }

  // More than can wait for all GPUs at once are never under way, so that what is let go is over.
  static constexpr std::size_t kKept = 8192;

 private:
  Operation* find_mine(std::string_view id);

  std::string epoch_;
  std::uint64_t last_ = 0;
  std::deque<Operation> operations_;
};

}  // namespace gpuyard::control
