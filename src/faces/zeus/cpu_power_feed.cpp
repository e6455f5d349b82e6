#include "zeus/cpu_power_feed.h"

#include <algorithm>
#include <utility>

#include "base/json_writer.h"
#include "http/event_stream.h"

namespace gpuyard::zeus {
namespace {

struct CpuPower {
  std::int64_t timestamp_ms = 0;
  std::uint32_t cpu_id = 0;
  std::int64_t cpu_mw = 0;
  std::optional<std::int64_t> dram_mw;
};
BOOST_DESCRIBE_STRUCT(CpuPower, (), (timestamp_ms, cpu_id, cpu_mw, dram_mw))

std::optional<std::int64_t> known(const std::optional<Result<std::int64_t>>& power) {
  return power && power->ok() ? std::optional(**power) : std::nullopt;
}

}  // namespace

CpuPowerFeed::CpuPowerFeed(Loop& loop, const CpuSight& sight,
                           const std::vector<std::uint32_t>& cpus)
    : loop_(loop) {
  for (const std::uint32_t id : cpus) waiting_.push_back({id, std::nullopt});
  listening_ = sight.listen([this](const cpu::Energies& energies) { hear(energies); });
}

void CpuPowerFeed::hear(const cpu::Energies& energies) {
  const auto before = std::exchange(last_, energies);
  if (!before) return;
  for (cpu::PackagePower& power : cpu::power_between(*before, energies)) {
    const auto one = std::ranges::find(waiting_, power.number, &Waiting::id);
    if (one != waiting_.end() && power.milliwatts) one->power = std::move(power);
  }
  more();
}

http::Chunk CpuPowerFeed::next() {
  for (std::size_t tried = 0; tried < waiting_.size(); ++tried) {
    Waiting& one = waiting_[turn_];
    turn_ = (turn_ + 1) % waiting_.size();
    const auto power = std::exchange(one.power, std::nullopt);
    if (!power) continue;
    const CpuPower event{
        loop_.wall().time_since_epoch().count() - to_milliseconds(loop_.now() - last_->taken),
        one.id, *power->milliwatts, known(power->dram_milliwatts)};
    return http::event_chunk("", json::to_json(event));
  }
  return {};
}

}  // namespace gpuyard::zeus
