#include "zeus/coarse_cpus.h"

#include <utility>

namespace gpuyard::zeus {
namespace {

constexpr std::int64_t kJoule = 1'000'000;  // in microjoules

void coarsen(Result<std::int64_t>& energy_uj) {
  if (energy_uj) *energy_uj -= *energy_uj % kJoule;
}

}  // namespace

const cpu::Energies& CoarseCpus::take(const cpu::Energies& read) {
  if (told_ && loop_.now() - told_at_ < kPeriod) return *told_;
  told_ = read;
  told_at_ = loop_.now();
  for (cpu::PackageEnergy& package : told_->packages) {
    coarsen(package.energy_uj);
    if (package.dram_uj) coarsen(*package.dram_uj);
  }
  return *told_;
}

void CoarseCpus::fresh(cpu::Watch::Answer answer) {
  if (told_ && loop_.now() - told_at_ < kPeriod) {
    return loop_.post([answer = std::move(answer), told = *told_] { answer(told); });
  }
  watch_.fresh(
      [weak = std::weak_ptr(self_), answer = std::move(answer)](const Result<cpu::Energies>& read) {
        const auto self = weak.lock();
        if (self && read) {
          answer((*self)->take(*read));
        } else if (!read) {
          answer(read.error());
        }
      });
}

Subscription CoarseCpus::listen(cpu::Watch::Heard heard) {
  return watch_.listen([weak = std::weak_ptr(self_), heard = std::move(heard),
                        last = std::make_shared<TimePoint>()](const cpu::Energies& read) {
    const auto self = weak.lock();
    if (!self) return;
    const cpu::Energies& told = (*self)->take(read);
    if (std::exchange(*last, told.taken) != told.taken) heard(told);
  });
}

}  // namespace gpuyard::zeus
