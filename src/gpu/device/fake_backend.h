// A fleet that exists only in memory and can be changed while somebody reads it: for tests of every
// room above the backend, and behind the public library's FakeFleet.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "device/backend.h"
#include "device/gpu_snapshot.h"

namespace gpuyard {

// Apart, because the public library has a FakeFleet too; the house calls it FakeFleet all the same.
namespace fakes {

// One write that reached the fake driver, in the order in which they did.
struct FakeWrite {
  std::uint32_t index = 0;
  std::variant<Setting, EccCounter> what;  // which was set, or which was cleared
  std::optional<Errc> failed = {};         // none: the driver did it

  friend bool operator==(const FakeWrite&, const FakeWrite&) = default;
};

// Copies share one fleet. Any thread may call anything. Changing a GPU that is not there does
// nothing.
class FakeFleet {
 public:
  // `count` GPUs at 40 C and 0 %, with `memory` bytes each, none used, without ECC errors.
  static FakeFleet with_healthy_gpus(std::uint32_t count, std::int64_t memory);
  // A machine whose driver does not load.
  static FakeFleet without_driver(Error why);

  // A healthy GPU more, at an index that is free; else nothing, and false. Whoever counted the GPUs
  // already may not see it.
  bool add_gpu(std::uint32_t index, const std::string& name, std::int64_t memory);

  void set_number(std::uint32_t index, Metric, std::int64_t value);
  void set_missing(std::uint32_t index, Metric, Missing);
  void set_text(std::uint32_t index, Metric, std::string text);
  // `bytes` within what the GPU has.
  void set_memory_used(std::uint32_t index, std::int64_t bytes);
  void set_temperature(std::uint32_t index, std::int64_t celsius);
  // One uncorrectable error more, up to the largest count there is. A GPU without ECC has none.
  void inject_ecc_error(std::uint32_t index);

  // The GPU falls off the bus: it does not open any more, and every reading of it is lost.
  void remove_gpu(std::uint32_t index);
  // It is back, as it was; at another free index if so wished, as after a restart of the driver:
  // whoever has it open keeps reading it, and sees the index after opening it again.
  void replug_gpu(std::uint32_t index) { replug_gpu(index, index); }
  void replug_gpu(std::uint32_t index, std::uint32_t new_index);

  // Something happens to the GPU, also to one that was removed; every backend of this fleet tells
  // it.
  void raise_event(std::uint32_t index, EventKind, std::optional<std::uint32_t> xid = {});
  // Waiting for events fails so, until there is nothing wrong any more.
  void fail_events(std::optional<Error> why);

  // What the driver says of a setting from now on: its range, or what somebody else set. Every GPU
  // begins as FakeSettings says.
  void set_setting(std::uint32_t index, SettingKind, const SettingState&);
  void set_unsupported(std::uint32_t index, SettingKind);
  // Writing it fails so, until there is nothing wrong any more.
  void set_setting_fails(std::uint32_t index, SettingKind, std::optional<Error> why);
  // Nothing may be changed, and why; until there is nothing wrong any more.
  void deny_control(std::optional<Error> why);
  // The last kKeptWrites that reached the driver, those that it refused too.
  std::vector<FakeWrite> writes() const;
  static constexpr std::size_t kKeptWrites = 4096;

  // The GPU's driver calls block until unblocked: what a dying GPU does.
  void block(std::uint32_t index);
  void unblock(std::uint32_t index);

  Fleet fleet() const;
  std::unique_ptr<Backend> backend() const;
  // The small view of every GPU that is there, by index; waits for those that block.
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
