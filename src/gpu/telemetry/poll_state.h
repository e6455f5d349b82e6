// Telemetry's state of one GPU: the last readings, the probes that are due, and the one pending
// query. Pure state: it is told the time and neither asks nor waits.
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

// A GPU is unresponsive once its answer is overdue by this time, until it answers.
inline constexpr Duration kUnresponsiveAfter = std::chrono::seconds(1);

class Track {
 public:
  explicit Track(DeviceInfo info) : info_(std::move(info)) {}

  const DeviceInfo& info() const { return info_; }
  const Sample& sample() const { return sample_; }
  bool readable() const { return !info_.fault; }

  // Adds the probes of a tick to those already due.
  void make_due(ProbeSet probes) { due_ = due_ | probes; }
  // Adds probes that a caller waits for; they go before the due ones.
  void make_urgent(ProbeSet probes) { urgent_ = urgent_ | probes; }

  // Returns the probes to ask next; empty while an answer is pending or nothing is wanted. Probes
  // outside the fast tier are asked one at a time, so that they delay the fast tier by one probe at
  // most.
  ProbeSet next() const;
  void asked(std::uint64_t id, ProbeSet probes, TimePoint now);
  // Returns the part of the answer that was asked for and is plausible, because the child that sent
  // it may be corrupt. Returns nothing if it is too late: not the answer to the pending query.
  std::optional<Sample> answered(std::uint64_t id, const Sample&, TimePoint now);
  // The driver-host is gone, and the answer with it.
  void forget_question() { question_.reset(); }

  bool idle() const { return !question_ && next().empty(); }
  bool unresponsive(TimePoint now) const;

  // Returns the readings with the GPU's condition. A row that was never read is missing, "not
  // ready".
  DeviceState state(TimePoint now) const;

 private:
  void note_presence(const Missing* why_gone);
  void note_vitals(const Sample&);

  struct Question {
    std::uint64_t id;
    ProbeSet probes;
    TimePoint asked;
  };

  DeviceInfo info_;
  Sample sample_;
  ProbeSet due_;
  ProbeSet urgent_;
  std::optional<Question> question_;
  std::optional<Missing> gone_;  // set if the last answer said so in every row
  std::optional<TimePoint> vitals_at_;
};

// Logs each (GPU, cause) of failed queries once and then counts it.

class QueryErrors {
 public:
  // Logs "Error querying GPU device 0: Unknown Error" the first time. A row that a GPU does not
  // support, or has no value for yet, is no error.
  void note(const DeviceInfo&, const Sample&);
  void note(const DeviceInfo&, const Missing&);

  // Returns the count of all causes together.
  std::uint64_t count(const DeviceId&) const;

  // The most different causes that are counted. Texts come from a driver; beyond this number they
  // count as "another cause".
  static constexpr std::size_t kMaxCauses = 1024;

 private:
  std::map<std::pair<DeviceId, std::string>, std::uint64_t> counts_;
};

// Lists the GPUs that the driver counts, and those that it counted before, also in an earlier
// daemon's life: a board that is lost for good is not even counted by the next driver session, and
// must not look as if it had never been there. Pure state: it is told the time.

class Roster {
 public:
  // Takes the boards that an earlier daemon knew. Those that are not counted are missing, since
  // they were last seen.
  void restore(const std::vector<KnownBoard>&);
  // Takes the GPUs that the driver counts now.
  void arrive(const std::vector<DeviceInfo>& counted, WallTime wall);
  // Forgets a missing board, because it was taken out for good. False: it is not a missing one.
  bool take_out(const DeviceId&);

  // Returns the list by index. A missing board has the fault "device lost" and a former_index. It
  // keeps its index unless another GPU has that now; then it gets a free one.
  std::vector<DeviceInfo> list() const;
  // Returns all boards that have a UUID, without their errors and their first time.
  std::vector<KnownBoard> known(WallTime now) const;

  static constexpr std::size_t kMostGone = 64;

 private:
  struct Gone {
    DeviceInfo info;
    WallTime last_seen;
  };

  void note_gone(const DeviceInfo&, WallTime last_seen);

  std::vector<KnownBoard> remembered_;  // until the driver counts for the first time
  bool arrived_ = false;
  std::vector<DeviceInfo> counted_;
  std::vector<Gone> gone_;  // oldest first
};

}  // namespace gpuyard::telemetry
