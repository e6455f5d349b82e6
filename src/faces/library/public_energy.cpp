// The public energy window: a shell over the house's.
#include <mutex>
#include <optional>
#include <utility>

#include "gpuyard/energy.h"
#include "library/energy_window.h"
#include "library/public_monitor.h"

namespace gpuyard {
namespace {

EnergyMeasurement measurement_of(const protocol::EnergyWindow& window) {
  EnergyMeasurement out{window.seconds, window.joules, {}};
  for (const protocol::WindowGpu& gpu : window.gpus) {
    out.gpus.push_back({gpu.index.value_or(0), gpu.uuid, gpu.joules, gpu.seconds, gpu.mean_w,
                        gpu.peak_w, gpu.estimated, gpu.interrupted, gpu.unknown_seconds});
  }
  return out;
}

}  // namespace

struct EnergyWindow::State {
  State(std::shared_ptr<const Monitor::State> of, library::EnergyWindow measuring)
      : monitor(std::move(of)), window(std::move(measuring)) {}

  EnergyMeasurement measure(bool last) {
    const std::lock_guard lock(mutex);
    if (!window) return ended;
    EnergyMeasurement now = measurement_of(window->measure());
    if (!last) return now;
    window.reset();
    monitor.reset();
    return ended = std::move(now);
  }

  std::mutex mutex;
  std::shared_ptr<const Monitor::State> monitor;
  std::optional<library::EnergyWindow> window;  // ends before its monitor
  EnergyMeasurement ended;
};

EnergyWindow::EnergyWindow(std::unique_ptr<State> state) : state_(std::move(state)) {}
EnergyWindow::EnergyWindow(EnergyWindow&&) noexcept = default;
EnergyWindow& EnergyWindow::operator=(EnergyWindow&&) noexcept = default;
EnergyWindow::~EnergyWindow() = default;

EnergyMeasurement EnergyWindow::measure() const {
  return state_->measure(false);
}

EnergyMeasurement EnergyWindow::end() {
  return state_->measure(true);
}

Result<EnergyWindow> Monitor::begin_energy_window(const std::vector<std::uint32_t>& gpus) const {
  if (!state_->monitor) return state_->monitor.error();
  energy::WindowWish wish;
  for (const std::uint32_t index : gpus) wish.gpus.push_back(std::to_string(index));
  auto window = library::EnergyWindow::begin(*state_->monitor, wish);
  if (!window) return std::move(window).error();
  return EnergyWindow(std::make_unique<EnergyWindow::State>(state_, *std::move(window)));
}

}  // namespace gpuyard
