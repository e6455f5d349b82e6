#include "faces/library/energy_window.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"

namespace gpuyard::library {

struct EnergyWindow::State {
  State(const Monitor& of, Duration timeout)
      : monitor(of), read_timeout(timeout), ledger(boot_id()) {}
  ~State() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    changed.notify_all();
    if (reader.joinable()) reader.join();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Snapshot read() const { return monitor.inventory(read_timeout, energy::kEnergyProbes); }

  void run_reader() {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, kReadInterval, [&] { return ending; })) {
      lock.unlock();
      const Snapshot now = read();
      lock.lock();
      ledger.record(now);
    }
  }

  const Monitor& monitor;
  const Duration read_timeout;
  std::mutex mutex;
  std::condition_variable changed;
  energy::Ledger ledger;
  std::string id;
  bool ending = false;
  std::thread reader;
};

Result<EnergyWindow> EnergyWindow::begin(const Monitor& monitor,
                                         const energy::WindowRequest& request,
                                         Duration read_timeout) {
  auto state = std::make_unique<State>(monitor, read_timeout);
  auto id = state->ledger.begin(request, state->read());
  if (!id) return std::move(id).error();
  state->id = *std::move(id);
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
  const std::lock_guard lock(state_->mutex);
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
