/// @file
/// GPUs that exist only in memory: for the tests of whoever watches GPUs.
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
  /// What else there is to read they do not support until it is set.
  static FakeFleet with_healthy_gpus(std::uint32_t count, std::uint64_t memory);
  /// A machine whose driver does not load: Monitor::open gives this error, as "failed to initialise
  /// NVML: `why`".
  static FakeFleet without_driver(std::string_view why);

  /// Bytes in use, up to what the GPU has.
  void set_memory_used(std::uint32_t index, std::uint64_t bytes);
  /// Core temperature, degrees Celsius.
  void set_temperature(std::uint32_t index, std::int64_t celsius);
  /// One uncorrectable memory error more, up to the largest count there is. None on a GPU without
  /// ECC.
  void inject_ecc_error(std::uint32_t index);

  /// Any number, by the key that Device::Reading has and in the unit that it says:
  /// `set_number(0, "power_draw_w", 312.5)`. Error: nothing is called so, or it is no number.
  Result<void> set_number(std::uint32_t index, std::string_view key, double value);
  /// Why a reading has no value from now on. Error: nothing is called so.
  Result<void> set_missing(std::uint32_t index, std::string_view key, Missing why);

  /// The GPU falls off the bus: it is lost, and so is every reading.
  void remove_gpu(std::uint32_t index);
  /// It is back, as it was.
  void replug_gpu(std::uint32_t index);
  /// It is back under another index, if that is free. A Monitor that is open goes on to read it and
  /// calls it as before; one that is opened now calls it by the new index.
  void replug_gpu(std::uint32_t index, std::uint32_t new_index);

  /// A change that reached the fake driver.
  struct Write {
    std::uint32_t index = 0;                 ///< of the GPU
    std::optional<SettingKind> setting;      ///< empty: ECC errors were cleared
    std::optional<SettingValue> value = {};  ///< empty: clocks are not locked any more
    std::optional<Errc> refused = {};        ///< how the driver refused it; empty: it did it

    /// Equal when every field is.
    friend bool operator==(const Write&, const Write&) = default;
  };
  /// The last 4096 of them, in the order in which they came.
  std::vector<Write> writes() const;

  /// What the driver says of a setting from now on: its range, or what somebody else set it to. At
  /// first the power limit is 300 W of 100 to 400, clocks lock within 210 to 1980 MHz, those of the
  /// memory within 1593 to 2619, persistence is off and ECC is on.
  void set_setting(std::uint32_t index, SettingKind setting, const SettingState& state);
  /// The GPU does not have such a setting.
  void set_setting_unsupported(std::uint32_t index, SettingKind setting);
  /// Whoever sets it gets this error; nothing: it works again.
  void set_setting_fails(std::uint32_t index, SettingKind setting, std::optional<Error> why);
  /// Nothing may be changed (Errc::denied) and why; nothing: everything may again.
  void deny_control(std::optional<std::string> why);

  /// The GPU's driver calls do not return until unblock(): what a dying GPU does.
  void block(std::uint32_t index);
  /// They return.
  void unblock(std::uint32_t index);

  /// The small view of every GPU that is there, by index. Waits for those that are blocked.
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
/// What is not said of a GPU is sane: 40 C, 0 %, nothing used of 80 GB, 60 of 300 W. Not thread
/// safe; what it builds is.
class GPUYARD_API MockBuilder {
 public:
  /// No GPU yet.
  MockBuilder();

  /// One GPU more; what follows is said of it. If there is one of this index, it is meant, and
  /// keeps its name.
  MockBuilder& with_device(std::uint32_t id, std::string_view name);
  /// Core temperature, degrees Celsius. Of no GPU without with_device().
  MockBuilder& with_temperature(std::int64_t celsius);
  /// 0 to 100. Of no GPU without with_device().
  MockBuilder& with_utilization(std::int64_t percent);
  /// Bytes. Of no GPU without with_device().
  MockBuilder& with_memory(std::uint64_t used, std::uint64_t total);

  /// What was described, to be watched with Monitor::open. It shares its GPUs with the builder.
  FakeFleet build() const;
  /// The small view of what was described, by index.
  std::vector<GpuMetrics> collect_metrics() const;

 private:
  FakeFleet fleet_;
  std::optional<std::uint32_t> last_;
};

}  // namespace v0
}  // namespace gpuyard
