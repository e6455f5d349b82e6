// What one listener of GET /cpu/stream_power gets: of each CPU the newest power that it has not got
// yet. Lives on the io thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/power.h"
#include "http/feed.h"
#include "zeus/handlers.h"

namespace gpuyard::zeus {

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
