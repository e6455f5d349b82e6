// Turns driver replies into numbered snapshots. Thread: io. It sends queries, receives replies and
// keeps time through small interfaces, and never calls a driver.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "gpu/device/backend.h"
#include "gpu/device/catalog.h"
#include "gpu/device/event.h"
#include "gpu/device/health.h"
#include "gpu/device/health_tracker.h"
#include "gpu/device/known_board.h"
#include "gpu/device/snapshot.h"
#include "gpu/telemetry/fresh_reads.h"
#include "gpu/telemetry/poll_state.h"
#include "gpu/telemetry/power_sampler.h"
#include "gpu/telemetry/query_errors.h"
#include "gpu/telemetry/roster.h"
#include "gpu/telemetry/suspend_monitor.h"

namespace gpuyard::telemetry {

// Carries queries to the driver, all of them or none. Returns false if it cannot now; telemetry
// tries again.
class ReadRequester {
 public:
  virtual ~ReadRequester() = default;
  virtual bool read(const std::vector<ReadRequest>&) = 0;
};

// The longest time from a tick to its snapshot, which has the replies that have come by then.
inline constexpr Duration kPublishTimeout = std::chrono::milliseconds(250);

// The time between two snapshots while every GPU is asleep. One step of it never counts as an
// interruption, also where the interval of the next snapshot is the usual one: see max_step().
inline constexpr Duration kAsleepInterval = std::chrono::seconds(4);

class Telemetry {
 public:
  Telemetry(Loop&, ReadRequester&, HealthPolicy = {});

  // Returns the newest published snapshot; never null. Generation 0 means that nothing is known
  // yet.
  const SnapshotPtr& latest() const { return latest_; }

  // Reads `probes` of every GPU now, or of these, and answers within kFreshReadTimeout with a
  // snapshot of only these GPUs and rows: the values that came, and "timed out" for the others.
  // Callers that arrive before a read begins share it, and it has what any of them asked for. It
  // begins a few turns of the loop after the first of them, and once the one before has ended.
  // Does not wait for a GPU that is already unresponsive. The health of a GPU, which rests on more
  // rows, is not known there.
  void read_fresh(ProbeSet probes, OnFreshRead on_done);
  void read_fresh(ProbeSet probes, const std::vector<DeviceId>& gpus, OnFreshRead on_done);

  // Takes what an earlier daemon knew of this machine's boards. Called right before the first
  // on_inventory(), so that no verdict is made without it, or as soon as it can be read.
  void restore(const std::vector<KnownBoard>&, const std::string& boot_id);
  // Returns what is to outlive the daemon; without boot and first time.
  std::vector<KnownBoard> known_boards() const;
  // Returns the boards that this machine had and that the driver does not list.
  std::vector<DeviceInfo> missing_boards() const;
  // Marks the GPU's uncorrectable memory errors so far as known: the GPU was reset, its counters
  // were cleared, or a user has acknowledged an alert about them.
  void acknowledge_errors(const DeviceId& id) { health_.acknowledge(id); }
  // Removes a board that the driver does not list. False: it is not a missing one.
  bool remove_board(const DeviceId&);

  // Calls `on_power` with the power of one GPU every `period`, from 10 ms to 1 s: see PowerSampler.
  Subscription subscribe_power(const DeviceId& id, Duration period, OnPower on_power) {
    return power_sampler_.subscribe(id, period, std::move(on_power));
  }

  // Lets `annotator` complete each snapshot right before it is published.
  void set_annotator(std::function<void(Snapshot&)> annotator) {
    annotator_ = std::move(annotator);
  }

  // Calls `listener` with each snapshot when it is published: one per tick, or every
  // kAsleepInterval while all GPUs are asleep, and one when the driver comes or goes.
  void set_listener(std::function<void(const SnapshotPtr&)> listener) {
    listener_ = std::move(listener);
  }

  // The time between two ticks; kFastInterval by default. Slower tiers are read with the tick that
  // is due next.
  void set_interval(Duration interval) { interval_ = interval; }

  // Pauses the polling of idle GPUs that the kernel may suspend. `is_needed` returns whether a GPU
  // is polled nevertheless.
  void set_runtime_power(std::unique_ptr<RuntimePowerSource> source,
                         std::function<bool(const DeviceId&)> is_needed) {
    suspend_monitor_ = {std::move(source), std::move(is_needed)};
  }

  // Messages from the driver's side.
  void on_inventory(const Inventory&);
  void on_no_driver(const Error&);
  void on_replies(const std::vector<ReadReply>&);
  void on_host_down(const std::string& why);
  // on_event() gets each event once. on_duplicate_event() gets the second source's account of it,
  // which only adds what the first did not know.
  void on_event(const DeviceEvent&);
  void on_duplicate_event(const DeviceEvent&);

 private:
  void list_devices();
  void tick();
  bool is_due(Duration period) const;
  bool can_skip_snapshot() const;
  void publish();
  void publish_if_complete();
  void send_next_queries(const std::vector<PollState*>&);
  void request_power(const DeviceId&);
  void query_fresh(const FreshRead&);
  void finish_fresh_if_complete();
  Snapshot begin_snapshot() const;
  Snapshot assemble() const;
  Snapshot assemble(const FreshRead&) const;
  void complete(DeviceState&) const;
  PollState* find(const DeviceId&);

  Loop& loop_;
  ReadRequester& requester_;
  DriverState driver_;
  Roster roster_;
  std::vector<PollState> poll_states_;  // by index
  QueryErrors errors_;
  HealthTracker health_;
  XidCounter xids_;
  std::uint64_t next_id_ = 1;
  std::uint64_t ticks_ = 0;
  Duration interval_ = kFastInterval;
  SuspendMonitor suspend_monitor_;
  SnapshotPtr latest_;
  std::function<void(Snapshot&)> annotator_ = [](Snapshot&) {};
  std::function<void(const SnapshotPtr&)> listener_ = [](const SnapshotPtr&) {};

  FreshReads fresh_reads_{loop_, [this](const FreshRead& read) { query_fresh(read); },
                          [this](const FreshRead& read) { return assemble(read); }};
  PowerSampler power_sampler_{loop_, [this](const DeviceId& id) { request_power(id); }};
  Subscription tick_timer_;
  Subscription publish_timer_;
};

}  // namespace gpuyard::telemetry
