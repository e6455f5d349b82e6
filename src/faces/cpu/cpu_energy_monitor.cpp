#include "faces/cpu/cpu_energy_monitor.h"

#include <utility>

namespace gpuyard::cpu {

CpuEnergyMonitor::CpuEnergyMonitor(Loop& loop, Worker& worker, std::string root)
    : loop_(loop), worker_(worker), rapl_(std::make_shared<Rapl>(std::move(root))) {
  latest_.unavailable_reason = "CPU energy has not been read yet";
}

void CpuEnergyMonitor::start() {
  read_periodically();
}

void CpuEnergyMonitor::read_periodically() {
  read_timer_ = loop_.call_after(kReadInterval, [this] { read_periodically(); });
  read_fresh([](const Result<Energies>&) {});
}

void CpuEnergyMonitor::read_fresh(OnRead on_done) {
  if (current_callers_.size() + next_callers_.size() >= kMaxCallers) {
    return loop_.post([on_done = std::move(on_done)] {
      on_done(Error{Errc::busy, "too many requests for CPU energy; try again later"});
    });
  }
  next_callers_.push_back(std::move(on_done));
  if (!read_timeout_) read_timeout_ = loop_.call_after(kReadTimeout, [this] { on_read_timeout(); });
  if (!reading_) start_read();
}

void CpuEnergyMonitor::start_read() {
  for (OnRead& on_done : std::exchange(next_callers_, {}))
    current_callers_.push_back(std::move(on_done));
  reading_ = run_on_worker(
      worker_, [rapl = rapl_] { return rapl->read(); },
      lifetime_.guard([this](Energies energies) { on_read(std::move(energies)); }));
}

void CpuEnergyMonitor::on_read(Energies energies) {
  reading_ = false;
  latest_ = std::move(energies);
  read_timeout_.reset();
  const auto callers = std::exchange(current_callers_, {});
  if (!next_callers_.empty()) {
    read_timeout_ = loop_.call_after(kReadTimeout, [this] { on_read_timeout(); });
    start_read();
  }
  notify_callers(callers, latest_);
}

// The worker did not start the reading in time, or is still busy. Its late answer becomes latest(),
// but no caller gets it.
void CpuEnergyMonitor::on_read_timeout() {
  read_timeout_.reset();
  auto callers = std::exchange(current_callers_, {});
  for (OnRead& on_done : std::exchange(next_callers_, {})) callers.push_back(std::move(on_done));
  notify_callers(callers, Error{Errc::timed_out, "reading the CPUs' energy took too long"});
}

void CpuEnergyMonitor::notify_callers(const std::vector<OnRead>& callers,
                                      const Result<Energies>& result) {
  for (const OnRead& on_done : callers) on_done(result);
}

Subscription CpuEnergyMonitor::subscribe(OnEnergies on_energies) {
  const std::uint64_t number = next_subscriber_++;
  subscribers_[number] = std::move(on_energies);
  if (!poll_timer_) poll_timer_ = loop_.call_after(Duration::zero(), [this] { poll(); });
  return Subscription(lifetime_.guard([this, number] {
    subscribers_.erase(number);
    if (subscribers_.empty()) poll_timer_.reset();
  }));
}

void CpuEnergyMonitor::poll() {
  poll_timer_ = loop_.call_after(kPeriod, [this] { poll(); });
  if (reading_) return;  // the worker is behind; the next poll reads again
  read_fresh(lifetime_.guard([this](const Result<Energies>& read) {
    if (!read) return;
    std::vector<std::uint64_t> due;
    for (const auto& [number, _] : subscribers_) due.push_back(number);
    for (const std::uint64_t number : due) {
      // A subscriber called before this one may have ended its own subscription, or others'.
      const auto listener = subscribers_.find(number);
      if (listener == subscribers_.end()) continue;
      const OnEnergies on_energies = listener->second;
      on_energies(*read);
    }
  }));
}

}  // namespace gpuyard::cpu
