/// @file
/// GPUs that exist only in memory, for tests of programs that watch GPUs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuyard/error.h"
#include "gpuyard/export.h"
#include "gpuyard/gpu_metrics.h"
#include "gpuyard/missing.h"
#include "gpuyard/setting.h"

namespace gpuyard {
inline namespace v0 {

/// A fleet that can be changed while it is watched (Monitor::open) and controlled (Control::open).
///
/// Copies share one fleet. Any thread may call anything at any time. Changing a GPU that is not
/// there does nothing.
class GPUYARD_API FakeFleet {
 public:
  /// GPUs 0 to `count - 1` at 40 C and 0 %, with `memory` bytes each, none used, no ECC errors.
  /// Every other reading is not supported until it is set.
  static FakeFleet with_healthy_gpus(std::uint32_t count, std::uint64_t memory);
  /// A machine whose driver does not load: Monitor::open gives this error, as "failed to initialise
  /// NVML: `why`".
  static FakeFleet without_driver(std::string_view why);

  /// Bytes in use, up to what the GPU has.
  void set_memory_used(std::uint32_t index, std::uint64_t bytes);
  /// Core temperature, degrees Celsius.
  void set_temperature(std::uint32_t index, std::int64_t celsius);
  /// Adds one uncorrectable memory error, up to the largest possible count. Does nothing on a GPU
  /// without ECC.
  void inject_ecc_error(std::uint32_t index);

  /// Sets any number, by its key in Device::Reading and in the unit of that key: `set_number(0,
  /// "power_draw_w", 312.5)`. Error: there is no such key, or its reading is no number.
  Result<void> set_number(std::uint32_t index, std::string_view key, double value);
  /// Takes away a reading's value from now on, for this reason. Error: there is no such key.
  Result<void> set_missing(std::uint32_t index, std::string_view key, Missing why);

  /// Makes the GPU fall off the bus: it and all its readings are lost.
  void remove_gpu(std::uint32_t index);
  /// Puts the GPU back, as it was.
  void replug_gpu(std::uint32_t index);
  /// Puts the GPU back under another index, if that is free. A Monitor that is already open goes on
  /// reading it under the old index; a Monitor opened later uses the new one.
  void replug_gpu(std::uint32_t index, std::uint32_t new_index);

  /// A change that reached the fake driver.
  struct Write {
    std::uint32_t index = 0;                 ///< index of the GPU
    std::optional<SettingKind> setting;      ///< empty: ECC errors were cleared
    std::optional<SettingValue> value = {};  ///< empty: the lock of the clocks was removed
    std::optional<Errc> refused = {};        ///< the driver's error; empty: it succeeded

    /// Equal when every field is.
    friend bool operator==(const Write&, const Write&) = default;
  };
  /// The last 4096 writes, the oldest first.
  std::vector<Write> writes() const;

  /// Sets what the driver says of a setting from now on: its range, or a value that another program
  /// set. At first the power limit is 300 W within 100 to 400, GPU clocks lock within 210 to 1980
  /// MHz, memory clocks within 1593 to 2619 MHz, persistence is off and ECC is on.
  void set_setting(std::uint32_t index, SettingKind setting, const SettingState& state);
  /// Makes the GPU lack this setting.
  void set_setting_unsupported(std::uint32_t index, SettingKind setting);
  /// Makes every change of this setting fail with this error; empty: changes work again.
  void set_setting_fails(std::uint32_t index, SettingKind setting, std::optional<Error> why);
  /// Denies every change (Errc::denied) for this reason; empty: allows changes again.
  void deny_control(std::optional<std::string> why);

  /// Makes the GPU's driver calls block until unblock(), as those of a dying GPU do.
  void block(std::uint32_t index);
  /// Lets the blocked driver calls return.
  void unblock(std::uint32_t index);

  /// The small view of every GPU that is there, by index. Waits for GPUs that are blocked.
  std::vector<GpuMetrics> collect_metrics() const;

 private:
  friend class Control;
  friend class Monitor;
  friend class MockBuilder;
  struct State;
  explicit FakeFleet(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

/// Describes a fleet GPU by GPU:
/// `MockBuilder().with_device(0, "A100").with_temperature(70).collect_metrics()`.
///
/// By default a GPU has 40 C, 0 %, 0 of 80 GB used and draws 60 of 300 W. Not thread safe; the
/// fleet that it builds is.
class GPUYARD_API MockBuilder {
 public:
  /// No GPU yet.
  MockBuilder();

  /// Adds a GPU; the following calls describe it. If this index exists already, they describe that
  /// GPU, and it keeps its name.
  MockBuilder& with_device(std::uint32_t id, std::string_view name);
  /// Core temperature, degrees Celsius. Does nothing before with_device().
  MockBuilder& with_temperature(std::int64_t celsius);
  /// Utilisation, 0 to 100 percent. Does nothing before with_device().
  MockBuilder& with_utilization(std::int64_t percent);
  /// Memory in bytes. Does nothing before with_device().
  MockBuilder& with_memory(std::uint64_t used, std::uint64_t total);

  /// The described fleet, for Monitor::open. It shares its GPUs with the builder.
  FakeFleet build() const;
  /// The small view of the described GPUs, by index.
  std::vector<GpuMetrics> collect_metrics() const;

 private:
  FakeFleet fleet_;
  std::optional<std::uint32_t> last_;
};

}  // namespace v0
}  // namespace gpuyard
