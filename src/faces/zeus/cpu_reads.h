// The requests that read CPUs: their energy as strangers may see it, and the stream of their power.
// Thread: io.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "faces/cpu/cpu_energy_monitor.h"
#include "faces/cpu/rapl.h"
#include "faces/zeus/ports.h"
#include "io/http/response_stream.h"

namespace gpuyard::zeus {

// The energy of CPUs as clients over TCP may see it. Finer counters show strangers what a program
// computes (CVE-2020-8694), which is why the kernel shows them to root alone: these are whole
// joules, read once a second, the same for all callers.
class CoarseEnergyMonitor {
 public:
  static constexpr Duration kPeriod = std::chrono::seconds(1);

  // The monitor and the loop outlive it.
  CoarseEnergyMonitor(Loop& loop, cpu::CpuEnergyMonitor& monitor)
      : loop_(loop), monitor_(monitor) {}
  CoarseEnergyMonitor(const CoarseEnergyMonitor&) = delete;
  CoarseEnergyMonitor& operator=(const CoarseEnergyMonitor&) = delete;

  // The next two are as in cpu::CpuEnergyMonitor.
  void read_fresh(cpu::CpuEnergyMonitor::OnRead);
  Subscription subscribe(cpu::CpuEnergyMonitor::OnEnergies);

 private:
  // Returns `read`, or the energies returned before if they are younger than kPeriod.
  const cpu::Energies& update(const cpu::Energies& read);

  Loop& loop_;
  cpu::CpuEnergyMonitor& monitor_;
  std::optional<cpu::Energies> latest_;
  TimePoint latest_at_{};
  Lifetime lifetime_;
};

// CPUs as one client may see them.
struct CpuAccess {
  std::function<void(cpu::CpuEnergyMonitor::OnRead)> read_fresh;
  std::function<Subscription(cpu::CpuEnergyMonitor::OnEnergies)> subscribe;
  Duration period{};  // between two calls of a subscriber
};

// The stream of one client of GET /cpu/stream_power: the newest power of each CPU that it has not
// received yet.
class CpuPowerStream final : public http::ResponseStream {
 public:
  // The loop outlives it. Subscribes to all CPUs for as long as the stream lives, and sends only
  // `cpus`.
  CpuPowerStream(Loop&, const CpuAccess&, const std::vector<std::uint32_t>& cpus);

  http::Chunk next() override;
  // False for the same reason as for GPUs: see stream_gpu_power().
  bool can_end() const override { return false; }

 private:
  struct PendingPower {
    std::uint32_t id = 0;
    std::optional<cpu::PackagePower> power;  // known, not taken yet
  };

  void on_energies(const cpu::Energies&);

  Loop& loop_;
  std::vector<PendingPower> pending_;
  std::size_t next_index_ = 0;
  std::optional<cpu::Energies> last_;
  Subscription subscription_;
};

}  // namespace gpuyard::zeus
