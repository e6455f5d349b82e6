// Turns driver answers into numbered snapshots. Lives on the io thread: it asks, listens and keeps
// time through small interfaces, and never calls a driver.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "device/backend.h"
#include "device/event.h"
#include "device/health.h"
#include "device/snapshot.h"
#include "telemetry/burst.h"
#include "telemetry/track.h"

namespace gpuyard::telemetry {

// A fresh read under way: which rows, since when, and for whom.

using SnapshotPtr = std::shared_ptr<const Snapshot>;
using FreshDone = std::function<void(const SnapshotPtr&)>;

// So long does a fresh read wait for a GPU.
inline constexpr Duration kFreshDeadline = std::chrono::milliseconds(250);

struct Flight {
  ProbeSet probes;
  TimePoint began;
  std::vector<FreshDone> callers;
};

// Every GPU worth waiting for has answered since the flight began. One that is unresponsive, or
// that cannot be read at all, is not worth waiting for.
bool has_landed(const Flight&, const std::vector<Track>&, TimePoint now);

// Of `all`, only the flight's rows and only those read since it began; the others are missing.
Snapshot only_fresh(Snapshot all, const Flight&);

// Who carries questions to the driver. False: not now; telemetry asks again.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual bool read(const ReadRequest&) = 0;
};

// A tick's snapshot is published this long after it began, with what came by then.
inline constexpr Duration kTickDeadline = std::chrono::milliseconds(250);
class Telemetry {
 public:
  Telemetry(Loop&, Reader&, HealthPolicy = {});

  // The newest published one; never null. Generation 0 is "nothing known yet".
  const SnapshotPtr& latest() const { return latest_; }

  // Reads `probes` of every GPU now and answers, within kFreshDeadline, a snapshot that holds only
  // these rows: what came, and "timed out" for the rest. Callers that arrive while a read is under
  // way share the next one. A GPU that is already unresponsive is not waited for.
  void fresh(ProbeSet probes, FreshDone done);

  // Hears the power of one GPU every `period`, from 10 ms to 1 s: see Burst.
  Subscription listen_power(const DeviceId& id, Duration period, PowerHeard heard) {
    return burst_.listen(id, period, std::move(heard));
  }

  // Told each snapshot when it is published: one a tick, and one whenever the driver came or went.
  void on_published(std::function<void(const SnapshotPtr&)> told) { told_ = std::move(told); }

  // What the driver's side tells us.
  void on_fleet(const Fleet&);
  void on_no_driver(const Error&);
  void on_reply(const ReadReply&);
  void on_host_down(const std::string& why);
  // Each event once; and its echo, which only adds what the first to tell did not know.
  void on_event(const DeviceEvent&);
  void on_echo(const DeviceEvent&);

 private:
  void list_devices();
  void tick();
  void publish();
  void publish_when_complete();
  void pump(Track&);
  void ask_power(const DeviceId&);
  void take_off();
  void land();
  void land_if_complete();
  bool flying() const { return !flight_.callers.empty(); }
  Snapshot assemble() const;
  Track* find(const DeviceId&);

  Loop& loop_;
  Reader& reader_;
  DriverState driver_;
  Roster roster_;
  std::vector<Track> tracks_;  // by index
  QueryErrors errors_;
  HealthWatch health_;
  XidCounts xids_;
  std::uint64_t next_id_ = 1;
  std::uint64_t ticks_ = 0;
  SnapshotPtr latest_;
  std::function<void(const SnapshotPtr&)> told_ = [](const SnapshotPtr&) {};

  Flight flight_;  // under way while it has callers
  Flight next_;    // those who arrived meanwhile
  Subscription landing_timer_;
  Subscription arrival_check_;
  Burst burst_{loop_, [this](const DeviceId& id) { ask_power(id); }};
  Subscription tick_timer_;
  Subscription publish_timer_;
};

}  // namespace gpuyard::telemetry
