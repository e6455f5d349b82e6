// The energy of CPUs as it may leave the machine. Finer counters tell strangers what a program
// computes (CVE-2020-8694), and so the kernel shows them to root alone. Lives on the io thread.
#pragma once

#include <memory>
#include <optional>

#include "cpu/watch.h"

namespace gpuyard::zeus {

// Whole joules, read once a second, the same for all who ask.
class CoarseCpus {
 public:
  static constexpr Duration kPeriod = std::chrono::seconds(1);

  // These outlive it.
  CoarseCpus(Loop& loop, cpu::Watch& watch) : loop_(loop), watch_(watch) {}
  CoarseCpus(const CoarseCpus&) = delete;
  CoarseCpus& operator=(const CoarseCpus&) = delete;

  // As of cpu::Watch.
  void fresh(cpu::Watch::Answer);
  Subscription listen(cpu::Watch::Heard);

 private:
  // What is told now: this, or what is not old enough yet.
  const cpu::Energies& take(const cpu::Energies& read);

  Loop& loop_;
  cpu::Watch& watch_;
  std::optional<cpu::Energies> told_;
  TimePoint told_at_{};
  std::shared_ptr<CoarseCpus*> self_ = std::make_shared<CoarseCpus*>(this);
};

}  // namespace gpuyard::zeus
