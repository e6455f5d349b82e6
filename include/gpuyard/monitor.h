/// @file
/// The monitor: reads the GPUs of this machine, from within this process.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpuyard/device.h"
#include "gpuyard/driver_info.h"
#include "gpuyard/energy.h"
#include "gpuyard/error.h"
#include "gpuyard/export.h"
#include "gpuyard/fake_fleet.h"
#include "gpuyard/gpu_device.h"
#include "gpuyard/gpu_metrics.h"
#include "gpuyard/gpu_snapshot.h"
#include "gpuyard/health.h"

namespace gpuyard {
inline namespace v0 {

/// The driver to open, and the thresholds of health.
struct MonitorOptions {
  /// Path of libnvidia-ml.so.1. Empty: the simulated library if the environment names a simulated
  /// world (GPUYARD_SIM_WORLD), else the library that the loader finds.
  std::string library;
  /// Thresholds of every GPU that `thresholds_of` does not name.
  HealthThresholds thresholds;
  /// Thresholds of single GPUs, by index ("3"), UUID or PCI address.
  std::map<std::string, HealthThresholds> thresholds_of;
  /// The longest wait of open() for GPUs to open. A GPU that does not is listed with that reason,
  /// and not read.
  std::chrono::milliseconds deadline{2000};
};

/// Watches the GPUs of this machine.
///
/// Any thread may call any const member function at any time. Each waits until its deadline at
/// most: a GPU that does not answer by then does not affect the others. There is one thread per
/// GPU, and opening starts one more; none of them handles signals or outlives the process.
///
/// The driver runs in this process: a call that never returns from the kernel leaves a thread
/// behind that even _exit() cannot end. A program that must survive a dying GPU uses the daemon,
/// which keeps the driver in a child process. The driver does not survive fork() without exec.
class GPUYARD_API Monitor {
 public:
  /// The longest wait of a reading unless the caller gives a deadline.
  static constexpr std::chrono::milliseconds kDefaultDeadline{2000};

  /// Opens the driver and every GPU. Takes 1 to 2 s where no other program keeps the driver loaded,
  /// so keep the result. ECC errors counted before opening do not count as new.
  ///
  /// Errors: "failed to initialise NVML: {why}" (Errc::unavailable or denied; advice_on() helps)
  /// and "NVML query failed: {why}". A machine without GPUs is no error.
  static Result<Monitor> open(const MonitorOptions& options = {});
  /// Watches a fake fleet instead. `options.library` means nothing then.
  static Result<Monitor> open(const FakeFleet& fleet, const MonitorOptions& options = {});
  /// The same as open(), but if that fails, returns a monitor without GPUs whose get_driver_info()
  /// says why.
  static Monitor open_or_none(const MonitorOptions& options = {});
  /// The same for a fake fleet.
  static Monitor open_or_none(const FakeFleet& fleet, const MonitorOptions& options = {});

  /// A monitor that was moved from may only be destroyed or assigned to.
  Monitor(Monitor&&) noexcept;
  /// Closes the driver that it watched before.
  Monitor& operator=(Monitor&&) noexcept;
  /// Closes the driver when running calls have returned or 200 ms have passed.
  ~Monitor();

  /// The number of GPUs that open() found. Does not wait.
  std::uint32_t gpu_count() const;

  /// The GPUs that are visible now, by index, in the smallest view. May be fewer than gpu_count():
  /// a GPU whose memory or temperature cannot be read is left out, and does not make the call fail.
  std::vector<GpuSnapshot> snapshot(std::chrono::milliseconds deadline = kDefaultDeadline) const;

  /// Every GPU that open() found, each with all its readings, or why they are missing. Takes at
  /// least 40 ms: the driver measures PCIe traffic for that long.
  std::vector<Device> inventory(std::chrono::milliseconds deadline = kDefaultDeadline) const;

  /// One number of one GPU, in the unit that its key says ("power_draw_w").
  ///
  /// Errors: "GPU index {index} is out of range", "feature not supported on this platform: {key}",
  /// "NVML query failed: {why}".
  Result<double> read(std::uint32_t index, std::string_view key,
                      std::chrono::milliseconds deadline = kDefaultDeadline) const;

  /// The GPUs that are visible now, by index, in the small view for scripts.
  std::vector<GpuMetrics> collect_metrics(
      std::chrono::milliseconds deadline = kDefaultDeadline) const;

  /// Every GPU as the daemon's `/api/gpu/devices` shows it; empty without a driver.
  std::vector<GPUDevice> get_devices(std::chrono::milliseconds deadline = kDefaultDeadline) const;
  /// The driver as it reports about itself, or why there is none. Does not wait.
  Result<DriverInfo> get_driver_info() const;
  /// Whether the driver is initialised and has at least one GPU. Does not wait.
  bool is_cuda_available() const;

  /// The verdict on one GPU, from values that are read now. Error: "GPU index {index} is out of
  /// range".
  Result<HealthReport> health(std::uint32_t index,
                              std::chrono::milliseconds deadline = kDefaultDeadline) const;
  /// Begins to measure the energy of the GPUs with these indexes, or of all GPUs whose energy or
  /// power can be read.
  ///
  /// Errors: "/gpus/0: GPU index {index} is out of range" (Errc::not_found); a GPU is named twice
  /// (invalid), or reports neither energy nor power, or no thread can be started to read them
  /// (unavailable).
  Result<EnergyWindow> begin_energy_window(const std::vector<std::uint32_t>& gpus = {}) const;

  /// Acknowledges the uncorrectable memory errors counted so far: they do not make the GPU
  /// unhealthy any more. Error: "GPU index {index} is out of range".
  Result<void> acknowledge_ecc_errors(std::uint32_t index) const;

 private:
  struct State;
  friend class EnergyWindow;
  friend class PrometheusExporter;
  friend class TrainingMonitor;
  explicit Monitor(std::shared_ptr<State>);
  std::shared_ptr<State> state_;
};

/// Advice on an error of Monitor::open: how to find the library, who may use the driver, and the
/// like. Lines for people, without a newline at the end; empty where there is no advice.
GPUYARD_API std::string advice_on(const Error&);

/// The version of this library, "0.1.0". Lives as long as the library.
GPUYARD_API std::string_view version();

}  // namespace v0
}  // namespace gpuyard
