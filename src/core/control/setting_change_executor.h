// The plan of a change of claims: changes the claims on one setting, and brings the GPU to them.
#pragma once

#include <optional>

#include "core/control/change_executor.h"
#include "core/control/managed_setting.h"

namespace gpuyard::control {

class SettingChangeExecutor final : public Plan {
 public:
  SettingChangeExecutor(ExecutorContext&, const QueuedChange&, SettingKind);

  void begin() override;

 private:
  bool must_look() const;
  bool is_known() const;   // the present value
  bool is_outbid() const;  // by a lower claim
  void on_look(const Heard&);
  void plan(const SettingState& seen);
  void settle(const SettingState& seen);
  void end_found(const SettingState& seen, Outcome);
  void go_on();
  void write(const Setting& target, const std::vector<SettingValue>& expected);
  void on_written(const Heard&);
  void note_what_was_replaced(const CommandReply&);
  void on_failed(const Heard&);
  void on_drifted();
  void keep_or_forget();
  void fail(Error);
  void tell(Outcome);

  bool is_put() const { return std::holds_alternative<Put>(pending_.job); }
  bool is_settling() const { return std::holds_alternative<Settle>(pending_.job); }
  bool is_reinstating() const { return std::holds_alternative<Reinstate>(pending_.job); }
  bool is_suspending() const { return std::holds_alternative<Suspend>(pending_.job); }

  ExecutorContext& context_;
  const QueuedChange& pending_;
  const SettingKind kind_;
  std::optional<Holding> before_;  // as it is kept
  Holding next_;
  bool may_drift_ = false;  // the write under way replaces only values that we know
  Change change_;
};

}  // namespace gpuyard::control
