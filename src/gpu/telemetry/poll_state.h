// Telemetry's state of one GPU: the last readings, the probes that are due, and the one pending
// query. Pure state: the caller gives the time; it neither queries nor waits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "gpu/device/device.h"
#include "gpu/device/known_board.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::telemetry {

// A GPU is unresponsive once its reply is overdue by this time, until it replies.
inline constexpr Duration kUnresponsiveTimeout = std::chrono::seconds(1);

class PollState {
 public:
  explicit PollState(DeviceInfo info) : info_(std::move(info)) {}

  const DeviceInfo& info() const { return info_; }
  const Sample& sample() const { return sample_; }
  bool is_readable() const { return !info_.fault; }

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
  DeviceState state(TimePoint now) const;

 private:
  void update_presence(const Missing* why_gone);
  void update_vitals(const Sample&);

  struct PendingQuery {
    std::uint64_t id;
    ProbeSet probes;
    TimePoint sent_at;
  };

  DeviceInfo info_;
  Sample sample_;
  ProbeSet due_;
  ProbeSet urgent_;
  std::optional<PendingQuery> pending_query_;
  std::optional<Missing> loss_;  // set if the last reply said so in every row
  std::optional<TimePoint> vitals_at_;
};

// Logs each (GPU, cause) of failed queries once and then counts it.

class QueryErrors {
 public:
  // Logs "Error querying GPU device 0: Unknown Error" the first time. A row that a GPU does not
  // support, or has no value for yet, is no error.
  void record(const DeviceInfo&, const Sample&);
  void record(const DeviceInfo&, const Missing&);

  // Returns the count of all causes together.
  std::uint64_t count(const DeviceId&) const;

  // The most different causes that are counted. Texts come from a driver; beyond this number they
  // count as "another cause".
  static constexpr std::size_t kMaxCauses = 1024;

 private:
  std::map<std::pair<DeviceId, std::string>, std::uint64_t> counts_;
};

// Lists the GPUs that the driver counts, and those that it counted before, also in an earlier
// daemon: a board that is lost for good is not even counted by the next driver session, and must
// not look as if it had never been there. Pure state: the caller gives the time.

class Roster {
 public:
  // Takes the boards that an earlier daemon knew. Those that are not counted are missing, since
  // they were last seen.
  void restore(const std::vector<KnownBoard>&);
  // Takes the GPUs that the driver counts now.
  void update(const std::vector<DeviceInfo>& counted, WallTime wall);
  // Removes a missing board, because it was taken out for good. False: it is not a missing one.
  bool remove_missing(const DeviceId&);

  // Returns the list by index. A missing board has the fault "device lost" and a former_index. It
  // keeps its index unless another GPU has that now; then it gets a free one.
  std::vector<DeviceInfo> list() const;
  // Returns all boards that have a UUID, without their errors and their first time.
  std::vector<KnownBoard> known_boards(WallTime now) const;

  static constexpr std::size_t kMaxMissing = 64;

 private:
  struct MissingBoard {
    DeviceInfo info;
    WallTime last_seen;
  };

  void add_missing(const DeviceInfo&, WallTime last_seen);

  std::vector<KnownBoard> restored_;  // until the driver counts for the first time
  bool has_inventory_ = false;
  std::vector<DeviceInfo> counted_;
  std::vector<MissingBoard> missing_;  // oldest first
};

}  // namespace gpuyard::telemetry
