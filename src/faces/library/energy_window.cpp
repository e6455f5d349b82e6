#include "faces/library/energy_window.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/proc_stat.h"
#include "base/try.h"

namespace gpuyard::library {

struct EnergyWindow::State {
  State(const Monitor& of, Duration timeout)
      : monitor(of), read_timeout(timeout), ledger(boot_id()) {}
  ~State() {
    {
      const MutexLock lock(mutex);
      ending = true;
    }
    changed.notify_all();
    if (reader.joinable()) reader.join();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Snapshot read() const { return monitor.inventory(read_timeout, energy::kEnergyProbes); }

  Result<void> begin(const energy::WindowRequest& request) {
    const Snapshot now = read();
    const MutexLock lock(mutex);
    id = GPUYARD_TRY(ledger.begin(request, now));
    return {};
  }

  void run_reader() {
    MutexLock lock(mutex);
    while (!changed.wait_for(mutex, kReadInterval, [&]() REQUIRES(mutex) { return ending; })) {
      lock.unlock();
      const Snapshot now = read();
      lock.lock();
      ledger.record(now);
    }
  }

  const Monitor& monitor;
  const Duration read_timeout;
  std::string id;  // since begin()
  Mutex mutex;
  ConditionVariable changed;
  energy::Ledger ledger GUARDED_BY(mutex);
  bool ending GUARDED_BY(mutex) = false;
  std::thread reader;
};

Result<EnergyWindow> EnergyWindow::begin(const Monitor& monitor,
                                         const energy::WindowRequest& request,
                                         Duration read_timeout) {
  auto state = std::make_unique<State>(monitor, read_timeout);
  GPUYARD_TRY(state->begin(request));
  try {
    state->reader = std::thread([raw = state.get()] { raw->run_reader(); });
  } catch (const std::system_error& none) {
    return Error{Errc::unavailable,
                 fmt::format("no thread to measure energy with: {}", none.what())};
  }
  return EnergyWindow(std::move(state));
}

EnergyWindow::EnergyWindow(std::unique_ptr<State> state) : state_(std::move(state)) {}
EnergyWindow::EnergyWindow(EnergyWindow&&) noexcept = default;
EnergyWindow& EnergyWindow::operator=(EnergyWindow&&) noexcept = default;
EnergyWindow::~EnergyWindow() = default;

const energy::GpuResult* EnergyMark::find(std::string_view uuid) const {
  const auto found = std::ranges::find(used.gpus, uuid, &energy::GpuResult::uuid);
  return found != used.gpus.end() ? &*found : nullptr;
}

EnergyMark EnergyWindow::mark() const {
  Snapshot now = state_->read();
  const MutexLock lock(state_->mutex);
  energy::Ledger& ledger = state_->ledger;
  ledger.record(now);
  EnergyMark mark{*ledger.result(state_->id, now.taken), 0, std::move(now)};
  for (const energy::GpuResult& gpu : mark.used.gpus) {
    const auto booked = ledger.booked_energy(gpu.uuid, mark.used.window.simulated);
    if (booked) mark.estimated_mj += booked->estimated_mj;
  }
  return mark;
}

}  // namespace gpuyard::library
