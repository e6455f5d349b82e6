// Remembers the boards of this machine over the daemon's end: telemetry gets what an earlier daemon
// knew before it makes the first verdict, and what changes goes to state.db. Thread: io.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/lifetime.h"
#include "base/loop.h"
#include "gpu/device/known_board.h"
#include "gpu/device/snapshot.h"
#include "gpu/events/event_log.h"
#include "gpu/telemetry/telemetry.h"
#include "io/store/machine_db.h"

namespace gpuyard::daemon {

// The name under which simulated worlds are known; the world's own name follows.
inline constexpr const char* kSimulatedMachine = "simulated:";

class MachineMemory {
 public:
  // The longest wait of the first reading for the disk.
  static constexpr Duration kRecallTimeout = std::chrono::seconds(2);
  static constexpr Duration kRetryDelay = std::chrono::seconds(5);
  // The age at which the stored time of a present board is renewed: a killed daemon loses so much.
  static constexpr Duration kSeenSaveInterval = std::chrono::hours(1);

  // The references outlive it. `boot`: the boot id of now.
  MachineMemory(Loop&, store::StateStore&, telemetry::Telemetry&, std::string boot);

  // Gives telemetry what is known of the machine, then calls `on_ready`: at once if that was done
  // before, and after kRecallTimeout if the disk does not answer; telemetry then gets it later. "":
  // a recording, of which nothing is remembered.
  void recall(const std::string& machine, std::function<void()> on_ready);
  // Stores what has changed. Returns an event, without a sequence, for each board that was missing
  // when the daemon started.
  std::vector<events::Event> on_snapshot(const Snapshot&);
  // Stores when each board was last seen.
  void flush();

 private:
  void load();
  void on_loaded(Result<std::vector<KnownBoard>>);
  void finish_recall();
  store::MachineTransaction unsaved_changes(bool with_times) const;
  void save(const store::MachineTransaction&, bool only_times);

  Loop& loop_;
  telemetry::Telemetry& telemetry_;
  store::MachineDb db_;
  const std::string boot_;
  std::string machine_;
  bool loaded_ = false;
  bool recalled_ = false;                     // the first reading has waited long enough
  bool reports_missing_ = false;              // of boards that an earlier daemon knew
  std::map<std::string, KnownBoard> stored_;  // by UUID
  bool saving_ = false;
  TimePoint next_save_at_{};
  std::function<void()> on_ready_;
  Subscription load_timer_;
  Subscription recall_timer_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::daemon
