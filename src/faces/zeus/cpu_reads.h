// The stream of one listener of GET /cpu/stream_power: the newest power of each CPU that it has not
// received yet. Lives on the io thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "faces/cpu/rapl.h"
#include "faces/zeus/ports.h"
#include "io/http/response_stream.h"

namespace gpuyard::zeus {

// The energy of CPUs as clients over TCP may see it. Finer counters tell strangers what a program
// computes (CVE-2020-8694), which is why the kernel shows them to root alone. Lives on the io
// thread.

// Whole joules, read once a second, the same for all callers.
class CoarseCpus {
 public:
  static constexpr Duration kPeriod = std::chrono::seconds(1);

  // These outlive it.
  CoarseCpus(Loop& loop, cpu::Watch& watch) : loop_(loop), watch_(watch) {}
  CoarseCpus(const CoarseCpus&) = delete;
  CoarseCpus& operator=(const CoarseCpus&) = delete;

  // Both as in cpu::Watch.
  void fresh(cpu::Watch::Answer);
  Subscription listen(cpu::Watch::Heard);

 private:
  // Returns `read`, or the energies told before if they are younger than kPeriod.
  const cpu::Energies& take(const cpu::Energies& read);

  Loop& loop_;
  cpu::Watch& watch_;
  std::optional<cpu::Energies> told_;
  TimePoint told_at_{};
  Lifetime here_;
};

// CPUs as one client may see them.
struct CpuAccess {
  std::function<void(cpu::Watch::Answer)> fresh;
  std::function<Subscription(cpu::Watch::Heard)> listen;
  Duration period{};  // between two calls of a listener
};

class CpuPowerStream final : public http::Feed {
 public:
  // Listens to all CPUs for as long as the feed lives, and tells only of `cpus`.
  CpuPowerStream(Loop&, const CpuAccess&, const std::vector<std::uint32_t>& cpus);

  http::Chunk next() override;
  // False for the same reason as for GPUs: see stream_gpu_power().
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
