// Derives processes, bottlenecks and change events from the snapshots. history.db stores the first
// two, and the readings.
#pragma once

#include <memory>
#include <string>

#include "base/loop.h"
#include "core/bottleneck/bottleneck_detector.h"
#include "core/bottleneck/bottleneck_spans.h"
#include "core/history/history.h"
#include "core/lease/lease_manager.h"
#include "core/processes/process_spans.h"
#include "core/processes/process_tracker.h"
#include "daemon/config/config.h"
#include "daemon/workers.h"
#include "gpu/device/snapshot.h"
#include "gpu/events/event_log.h"
#include "gpu/events/snapshot_diff.h"
#include "io/store/history_db.h"

namespace gpuyard::daemon {

// Thread: io.
class Recorders {
 public:
  // The references outlive it. `recorded`: the driver's lists come from a recording.
  Recorders(Loop&, Workers&, const config::Config&, bool recorded, const std::string& boot);

  // Adds the bottleneck of each GPU. Called before anything else gets the snapshot.
  void annotate(Snapshot&, const lease::LeaseManager&);
  // Adds what has changed since the last snapshot to the log.
  void record_changes(const Snapshot&, events::EventLog&);
  void on_snapshot(const Snapshot&, const lease::LeaseManager&);
  // Stores what is not on the disk yet.
  void flush();

  const ProcessDirectory& processes() const { return process_tracker_.directory(); }
  history::History& history() { return history_; }
  processes::ProcessRecorder& process_recorder() { return process_recorder_; }
  bottleneck::BottleneckRecorder& bottleneck_recorder() { return bottleneck_recorder_; }

 private:
  bottleneck::ExternalFacts external_facts(const DeviceState&, const lease::LeaseManager&) const;

  processes::ProcessTracker process_tracker_;
  events::ChangeDetector change_detector_;
  bottleneck::BottleneckDetector bottleneck_detector_;
  std::shared_ptr<store::HistoryDb> history_db_;  // used on the query worker only
  history::History history_;
  processes::ProcessRecorder process_recorder_;
  bottleneck::BottleneckRecorder bottleneck_recorder_;
};

}  // namespace gpuyard::daemon
