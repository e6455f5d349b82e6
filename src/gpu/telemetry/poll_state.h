// Telemetry's state of one GPU: the last readings, the probes that are due, and the one pending
// query. Pure state: the caller gives the time; it neither queries nor waits.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "gpu/device/device.h"
#include "gpu/device/snapshot.h"
#include "gpu/telemetry/idle_suspend.h"

namespace gpuyard::telemetry {

// A GPU is unresponsive once its reply is overdue by this time, until it replies.
inline constexpr Duration kUnresponsiveTimeout = std::chrono::seconds(1);
// The same for a GPU that was suspended when it was queried.
inline constexpr Duration kWakeTimeout = std::chrono::seconds(10);

class PollState {
 public:
  explicit PollState(DeviceInfo info) : info_(std::move(info)) {}

  const DeviceInfo& info() const { return info_; }
  const Sample& sample() const { return sample_; }
  bool is_readable() const { return !info_.fault; }

  // Updates the suspend state of the GPU. While its polling is paused, only urgent probes are
  // queried.
  void update_suspend(std::optional<Duration> suspend_delay, bool suspended, bool needed,
                      TimePoint now);
  const std::optional<RuntimeSuspend>& runtime_suspend() const { return suspend_.state(); }

  // Adds the probes of a tick to those already due.
  void make_due(ProbeSet probes) { due_ = due_ | probes; }
  // Adds probes that a caller waits for; they go before the due ones.
  void make_urgent(ProbeSet probes) { urgent_ = urgent_ | probes; }

  // Returns the probes to query next; empty while a reply is pending or nothing is wanted. Probes
  // outside the fast tier are queried one at a time, so that they delay the fast tier by one probe
  // at most.
  ProbeSet next_probes() const;
  void begin_query(std::uint64_t id, ProbeSet probes, TimePoint now);
  // Returns the part of the reply that was requested and is plausible, because the child that sent
  // it may be corrupt. Returns nothing if it is too late: not the reply to the pending query.
  std::optional<Sample> finish_query(std::uint64_t id, const Sample&, TimePoint now);
  // The driver-host is gone, and the reply with it.
  void drop_query() { pending_query_.reset(); }

  bool is_idle() const { return !pending_query_ && next_probes().empty(); }
  bool is_unresponsive(TimePoint now) const;

  // Returns the readings with the GPU's condition. A row that was never read is missing, "not
  // ready".
  DeviceState state(TimePoint now) const { return state(now, sample_); }
  // The same with other readings of the GPU in their place.
  DeviceState state(TimePoint now, Sample shown) const;

 private:
  void update_presence(const Missing* why_gone);
  void update_vitals(const Sample&);

  struct PendingQuery {
    std::uint64_t id;
    ProbeSet probes;
    TimePoint sent_at;
    bool wakes = false;
  };

  DeviceInfo info_;
  Sample sample_;
  ProbeSet due_;
  ProbeSet urgent_;
  std::optional<PendingQuery> pending_query_;
  std::optional<Missing> loss_;  // set if the last reply said so in every row
  std::optional<TimePoint> vitals_at_;
  IdleSuspend suspend_;
  bool is_read_ = false;  // all that was due has been read once
};

}  // namespace gpuyard::telemetry
