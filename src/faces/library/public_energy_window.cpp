// The public EnergyWindow: a shell over library::EnergyWindow that converts the records.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/try.h"
#include "faces/library/energy_window.h"
#include "faces/library/public_monitor.h"
#include "gpuyard/energy.h"
#include "gpuyard/monitor.h"

namespace gpuyard {
namespace {

EnergyMeasurement measurement_of(const library::EnergyMark& mark) {
  using energy::joules_of;
  using energy::seconds_of;
  EnergyMeasurement out{seconds_of(mark.used.length), {}, {}, mark.used.is_partial()};
  if (mark.used.is_known()) out.joules = joules_of(mark.used.energy_mj());
  for (const DeviceState& device : mark.snapshot.devices) {
    const energy::GpuResult* gpu = mark.find(device.info.uuid);
    if (gpu == nullptr) continue;
    out.gpus.push_back({device.info.index, gpu->uuid,
                        gpu->known ? std::optional(joules_of(gpu->energy_mj)) : std::nullopt,
                        seconds_of(gpu->length), energy::mean_watts(*gpu), energy::peak_watts(*gpu),
                        gpu->estimated, gpu->epochs_crossed > 0, seconds_of(gpu->unknown)});
  }
  return out;
}

}  // namespace

struct EnergyWindow::State {
  State(std::shared_ptr<const Monitor::State> of, library::EnergyWindow measuring)
      : monitor(std::move(of)), window(std::move(measuring)) {}

  EnergyMeasurement measure(bool last) {
    const MutexLock lock(mutex);
    if (!window) return ended;
    EnergyMeasurement now = measurement_of(window->mark());
    if (!last) return now;
    window.reset();
    monitor.reset();
    return ended = std::move(now);
  }

  Mutex mutex;
  std::shared_ptr<const Monitor::State> monitor GUARDED_BY(mutex);
  std::optional<library::EnergyWindow> window GUARDED_BY(mutex);  // ends before its monitor
  EnergyMeasurement ended GUARDED_BY(mutex);
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
  energy::WindowRequest request;
  for (const std::uint32_t index : gpus) request.gpus.push_back(std::to_string(index));
  auto window = GPUYARD_TRY(library::EnergyWindow::begin(*state_->monitor, request));
  return EnergyWindow(std::make_unique<EnergyWindow::State>(state_, std::move(window)));
}

}  // namespace gpuyard
