// One GPU as telemetry sees it: what was read last, what is due, and the one question that is out.
// Pure state: it is told the time and neither asks nor waits.
#pragma once

#include <cstdint>
#include <optional>

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

}  // namespace gpuyard::telemetry
