// What one listener of GET /cpu/stream_power gets: of each CPU the newest power that it has not got
// yet. Lives on the io thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cpu/rapl.h"
#include "http/feed.h"
#include "zeus/yard.h"

namespace gpuyard::zeus {

// The energy of CPUs as it may leave the machine. Finer counters tell strangers what a program
// computes (CVE-2020-8694), and so the kernel shows them to root alone. Lives on the io thread.

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
  Lifetime here_;
};

// CPUs as one client may see them.
struct CpuSight {
  std::function<void(cpu::Watch::Answer)> fresh;
  std::function<Subscription(cpu::Watch::Heard)> listen;
  Duration period{};  // of what is heard
};

class CpuPowerFeed final : public http::Feed {
 public:
  // Hears of all CPUs for as long as the feed lives, and tells of these.
  CpuPowerFeed(Loop&, const CpuSight&, const std::vector<std::uint32_t>& cpus);

  http::Chunk next() override;
  // As for GPUs.
  bool may_end() const override { return false; }

 private:
  struct Waiting {
    std::uint32_t id = 0;
    std::optional<cpu::PackagePower> power;  // known, not taken yet
  };

  void hear(const cpu::Energies&);

  Loop& loop_;
  std::vector<Waiting> waiting_;
  std::size_t turn_ = 0;
  std::optional<cpu::Energies> last_;
  Subscription listening_;
};

}  // namespace gpuyard::zeus
