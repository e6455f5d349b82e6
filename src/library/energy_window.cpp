#include "library/energy_window.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/boot.h"

namespace gpuyard::library {

struct EnergyWindow::State {
  explicit State(const Monitor& of) : monitor(of), ledger(boot_id()) {}
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

  Snapshot read() const { return monitor.inventory(kReadDeadline, energy::kEnergyProbes); }

  void read_until_the_end() {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, kReadEvery, [&] { return ending; })) {
      lock.unlock();
      const Snapshot now = read();
      lock.lock();
      ledger.observe(now);
    }
  }

  const Monitor& monitor;
  std::mutex mutex;
  std::condition_variable changed;
  energy::Ledger ledger;
  std::string id;
  bool ending = false;
  std::thread reader;
};

Result<EnergyWindow> EnergyWindow::begin(const Monitor& monitor, const energy::WindowWish& wish) {
  auto state = std::make_unique<State>(monitor);
  auto id = state->ledger.begin(wish, state->read());
  if (!id) return std::move(id).error();
  state->id = *std::move(id);
  state->reader = std::thread([raw = state.get()] { raw->read_until_the_end(); });
  return EnergyWindow(std::move(state));
}

EnergyWindow::EnergyWindow(std::unique_ptr<State> state) : state_(std::move(state)) {}
EnergyWindow::EnergyWindow(EnergyWindow&&) noexcept = default;
EnergyWindow& EnergyWindow::operator=(EnergyWindow&&) noexcept = default;
EnergyWindow::~EnergyWindow() = default;

protocol::EnergyWindow EnergyWindow::measure() const {
  const Snapshot now = state_->read();
  const std::lock_guard lock(state_->mutex);
  state_->ledger.observe(now);
  return protocol::energy_window_of(*state_->ledger.result(state_->id, now.taken), now);
}

}  // namespace gpuyard::library
