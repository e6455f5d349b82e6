// One GPU as telemetry sees it: what was read last, what is due, and the one question that is out.
// Pure state: it is told the time and neither asks nor waits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "device/device.h"
#include "device/snapshot.h"

namespace gpuyard::telemetry {

// A GPU whose answer is out for this long is unresponsive until it answers.
inline constexpr Duration kUnresponsiveAfter = std::chrono::seconds(1);

class Track {
 public:
  explicit Track(DeviceInfo info) : info_(std::move(info)) {}

  const DeviceInfo& info() const { return info_; }
  const Sample& sample() const { return sample_; }
  bool readable() const { return !info_.fault; }

  // Tick: from now on these are to be read, beside what is due already.
  void make_due(ProbeSet probes) { due_ = due_ | probes; }
  // Somebody waits for these: they go before what is due.
  void make_urgent(ProbeSet probes) { urgent_ = urgent_ | probes; }

  // What to ask next; empty while an answer is out, or when nothing is wanted. What is not of the
  // fast tier is asked one probe at a time, so that it delays the fast tier by one at most.
  ProbeSet next() const;
  void asked(std::uint64_t id, ProbeSet probes, TimePoint now);
  // What of the answer was asked for and makes sense; the child that gave it may be out of its
  // mind. Nothing: it is not the answer to the question that is out, but too late.
  std::optional<Sample> answered(std::uint64_t id, const Sample&, TimePoint now);
  // Whoever was asked is gone, and the answer with it.
  void forget_question() { question_.reset(); }

  bool idle() const { return !question_ && next().empty(); }
  bool unresponsive(TimePoint now) const;

  // The readings with the GPU's condition. A row that was never read is missing, "not ready".
  DeviceState state(TimePoint now) const;

 private:
  void note_presence(const Missing* why_gone);

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
  std::optional<Missing> gone_;  // the last answer said so in every row
};

// Which GPU fails in which way: each (GPU, cause) is logged once and then counted.

class QueryErrors {
 public:
  // Logs "Error querying GPU device 0: Unknown Error" the first time. What a GPU does not support,
  // or has no value for yet, is no error.
  void note(const DeviceInfo&, const Sample&);
  void note(const DeviceInfo&, const Missing&);

  // Of all causes together.
  std::uint64_t count(const DeviceId&) const;

  // Texts come from a driver: beyond so many different ones they count as "another cause".
  static constexpr std::size_t kMaxCauses = 1024;

 private:
  std::map<std::pair<DeviceId, std::string>, std::uint64_t> counts_;
};

// Which GPUs are listed: those that the driver counts, and for a day those that it counted before.
// A GPU that is lost for good is not even counted by the next driver session; that must not look as
// if it had never been there. Pure state: it is told the time.

class Roster {
 public:
  // What the driver counts now.
  void arrive(const std::vector<DeviceInfo>& counted, TimePoint now, WallTime wall);
  // True: somebody has been gone for too long and is not listed any more.
  bool forget(TimePoint now);

  // By index. One that is gone has the fault "device lost", and its own index unless that is
  // another's now: then one that is free.
  std::vector<DeviceInfo> list() const;

  static constexpr Duration kRemembered = std::chrono::hours(24);
  static constexpr std::size_t kMostGone = 64;

 private:
  struct Gone {
    DeviceInfo info;
    TimePoint since;
  };

  void note_gone(const DeviceInfo&, TimePoint now, WallTime wall);

  std::vector<DeviceInfo> counted_;
  std::vector<Gone> gone_;  // by time
};

}  // namespace gpuyard::telemetry
