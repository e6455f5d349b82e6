// A fleet that exists only in memory and can be changed while it is read. For tests of every room
// above the backend, and behind the public library's FakeFleet.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "gpu/device/backend.h"
#include "gpu/device/gpu_snapshot.h"

namespace gpuyard {

// A namespace of its own, because the public library has a FakeFleet too; inside the program it is
// called FakeFleet all the same.
namespace fakes {

// One write that reached the fake driver; writes are in order of arrival.
struct FakeWrite {
  std::uint32_t index = 0;
  std::variant<Setting, EccCounter> what;  // what was set, or cleared
  std::optional<Errc> failed = {};         // none: the driver did it

  friend bool operator==(const FakeWrite&, const FakeWrite&) = default;
};

// Copies share one fleet. Thread: any. Changing a GPU that is not there does nothing.
class FakeFleet {
 public:
  // Makes `count` GPUs at 40 C and 0 %, each with `memory` bytes, none used, and without ECC
  // errors.
  static FakeFleet with_healthy_gpus(std::uint32_t count, std::int64_t memory);
  // Makes a machine whose driver does not load.
  static FakeFleet without_driver(Error why);

  // Adds a healthy GPU at an index that is free; otherwise does nothing and returns false. A
  // backend that has counted the GPUs already may not see it.
  bool add_gpu(std::uint32_t index, const std::string& name, std::int64_t memory);

  void set_number(std::uint32_t index, Metric, std::int64_t value);
  void set_missing(std::uint32_t index, Metric, Missing);
  // Sets the memory used; limits `bytes` to the GPU's memory.
  void set_memory_used(std::uint32_t index, std::int64_t bytes);
  void set_temperature(std::uint32_t index, std::int64_t celsius);
  // Adds one uncorrectable error, up to the largest possible count. A GPU without ECC gets none.
  void inject_ecc_error(std::uint32_t index);

  // Makes the GPU fall off the bus: it can no longer be opened, and every reading of it is lost.
  void remove_gpu(std::uint32_t index);
  // Brings the GPU back unchanged, at another free index if wanted, as after a restart of the
  // driver. A backend that has it open keeps reading it and sees the new index after opening it
  // again.
  void replug_gpu(std::uint32_t index) { replug_gpu(index, index); }
  void replug_gpu(std::uint32_t index, std::uint32_t new_index);

  // Raises an event of the GPU, even of a removed one; every backend of this fleet reports it.
  void raise_event(std::uint32_t index, EventKind, std::optional<std::uint32_t> xid = {});

  // Sets what the driver reports for a setting from now on: its range, or a value that somebody
  // else set. Every GPU begins as FakeSettings says.
  void set_setting(std::uint32_t index, SettingKind, const SettingState&);
  void set_unsupported(std::uint32_t index, SettingKind);
  // Makes writes of it fail with this error until it is called with nothing.
  void fail_setting_writes(std::uint32_t index, SettingKind, std::optional<Error> why);
  // Denies every change with this error until it is called with nothing.
  void deny_control(std::optional<Error> why);
  // Returns the last kMaxKeptWrites writes that reached the driver, including refused ones.
  std::vector<FakeWrite> writes() const;
  static constexpr std::size_t kMaxKeptWrites = 4096;

  // Makes the GPU's driver calls block until unblock(), as those of a dying GPU do.
  void block(std::uint32_t index);
  void unblock(std::uint32_t index);

  Inventory inventory() const;
  std::unique_ptr<Backend> backend() const;
  // Returns the small view of every GPU that is present, by index; waits for GPUs that block.
  std::vector<GpuMetrics> collect_metrics() const;

 private:
  struct State;
  explicit FakeFleet(std::shared_ptr<State> state) : state_(std::move(state)) {}

  friend class FakeBackend;
  std::shared_ptr<State> state_;
};

}  // namespace fakes

using fakes::FakeFleet;

}  // namespace gpuyard
