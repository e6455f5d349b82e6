// Recent operations: those that wait, those that run, and the last that have ended. Lives on the io
// thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.h"
#include "core/control/change_request.h"

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

// Collects the results of all changes of one request, until the last has ended or its caller has
// waited long enough.
class ChangeCollector : public std::enable_shared_from_this<ChangeCollector> {
 public:
  using Changes = std::vector<ChangeResult>;
  using OnChanges = std::function<void(const Result<Changes>&)>;
  // Rolls back one change that worked, restores the claims of `before`, and reports how that ended.
  using Rollback = std::function<void(const ChangeResult&, std::vector<SettingClaim> before,
                                      std::function<void(const ChangeResult&)> done)>;

  // `rollback` is set for an atomic request. Calls `on_changes` once, never inside a call from
  // outside.
  ChangeCollector(Loop&, std::size_t changes, Rollback rollback, OnChanges on_changes);

  // Returns QueuedChange::on_done for the change at this index.
  std::function<void(const ChangeResult&, std::vector<SettingClaim>)> result_callback(
      std::size_t index);
  // Answers the caller with Errc::timed_out after `timeout` from now.
  void set_timeout(Duration timeout);

 private:
  struct Slot {
    std::optional<ChangeResult> result;
    std::vector<SettingClaim> claims_before;
  };

  void on_change_done(std::size_t index, const ChangeResult&,
                      std::vector<SettingClaim> claims_before);
  void on_rolled_back(std::size_t index, const ChangeResult&);
  void roll_back();
  void report_changes();
  void on_timeout();

  Loop& loop_;
  std::vector<Slot> slots_;
  Rollback rollback_;
  OnChanges on_changes_;
  std::size_t missing_;
  Subscription timeout_timer_;
};

}  // namespace gpuyard::control
