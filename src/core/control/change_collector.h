// Collects the results of all changes of one request, until the last has ended or its caller has
// waited long enough.
//
// Thread: io. The loop outlives the collector, which its changes in progress own.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/loop.h"
#include "base/result.h"
#include "core/control/change_result.h"
#include "core/control/managed_setting.h"

namespace gpuyard::control {

class ChangeCollector : public std::enable_shared_from_this<ChangeCollector> {
 public:
  using Changes = std::vector<ChangeResult>;
  using OnChanges = std::function<void(const Result<Changes>&)>;
  // Rolls back one change that worked, restores the claims of `before`, and reports how that ended.
  using Rollback = std::function<void(const ChangeResult&, std::vector<SettingClaim> before,
                                      std::function<void(const ChangeResult&)> done)>;

  // `rollback` is set for an atomic request. Calls `on_changes` once, and only after begin_wait().
  ChangeCollector(Loop&, std::size_t changes, Rollback rollback, OnChanges on_changes);

  // Returns QueuedChange::on_done for the change at this index.
  std::function<void(const ChangeResult&, std::vector<SettingClaim>)> result_callback(
      std::size_t index);
  // All changes are submitted. Answers the caller with Errc::timed_out after `timeout` from now.
  void begin_wait(Duration timeout);

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
  bool submitting_ = true;
  Subscription timeout_timer_;
};

}  // namespace gpuyard::control
