// Carries out a change of claims: changes the claims on one setting, and brings the GPU to them.
//
// The steps of a change, and the function that makes each arrow. The first and the last step are
// GpuQueue's; GpuQueue::refuse() and abandon() report what they end themselves.
//
//   queued ------- GpuQueue::refuse(): it is full or closed, or the right has ended ----+
//     |  GpuQueue::submit() or start_next(), start(): changes the claims                |
//     +----------- needs_read() is false --------+                                      |
//     |  send_command(ReadSetting)               |                                      |
//     v                                          |                                      |
//   reading                                      |                                      |
//     |  on_value_read(): prepare_write()        |  apply_target(),                     |
//     |  or reconcile_setting()                  |  reconcile_setting()                 |
//     +<-----------------------------------------+                                      |
//     |  write()                                                                        |
//     v                                                                                 |
//   persisting     the new state, with the baseline and the value about to be written   |
//     |  the callback of persist()                                                      |
//     v                                                                                 |
//   writing        one command: the setter checks the range, writes and reads back      |
//     |  on_written(): record_or_remove(), finish()                                     |
//     v                                                                                 |
//   finished       GpuQueue::finish() reports the result <------------------------------+
//
// These lead to `finished` early: start(), if there is nothing to do; fail(), from any step;
// on_value_read(), if the read fails: what the daemon owes is tried again later; on_drifted(),
// instead of write() or after it; finish_without_write() and apply_target(), if the GPU needs no
// write (a value that is written already is persisted only) or it is a dry run;
// GpuQueue::abandon(), from any step at the end of the daemon.
//
// Thread: io. The context and the change outlive the executor.
#pragma once

#include <optional>

#include "base/lifetime.h"
#include "core/control/change_executor.h"
#include "core/control/command_port.h"
#include "core/control/managed_setting.h"

namespace gpuyard::control {

class SettingChangeExecutor final : public ChangeExecutor {
 public:
  SettingChangeExecutor(ExecutorContext&, const QueuedChange&, SettingKind);

  void start() override;

 private:
  bool needs_read() const;
  bool is_value_known() const;  // the present value
  bool is_outbid() const;       // by a lower claim
  void on_value_read(const CommandReply&);
  void prepare_write(const SettingState& state);
  void reconcile_setting(const SettingState& state);
  void finish_without_write(const SettingState& state, ChangeOutcome);
  void apply_target();
  void write(const Setting& target, const std::vector<SettingValue>& expected);
  void on_written(const CommandReply&);
  void record_replaced_value(const CommandReply&);
  void on_write_failed(const CommandReply&);
  void on_drifted();
  void record_or_remove();
  void fail(Error);
  void finish(ChangeOutcome);

  bool is_set_value() const { return std::holds_alternative<SetValue>(change_.task); }
  bool is_reconciling() const { return std::holds_alternative<ReconcileSetting>(change_.task); }
  bool is_rolling_back() const { return std::holds_alternative<RollBackChange>(change_.task); }
  bool is_suspending() const { return std::holds_alternative<Suspend>(change_.task); }

  ExecutorContext& context_;
  const QueuedChange& change_;
  const SettingKind kind_;
  std::optional<ManagedSetting> before_;  // as it is saved
  ManagedSetting next_;
  bool can_drift_ = false;  // the write in progress replaces only values that we know
  ChangeResult result_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::control
