// A fleet that exists only in memory and can be changed while somebody reads it: for tests of every
// room above the backend.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "device/backend.h"

namespace gpuyard {

// Copies share one fleet. Any thread may call anything. Changing a GPU that is not there does
// nothing.
class FakeFleet {
 public:
  // `count` GPUs at 40 C and 0 %, with `memory` bytes each, none used.
  static FakeFleet with_healthy_gpus(std::uint32_t count, std::int64_t memory);
  // A machine whose driver does not load.
  static FakeFleet without_driver(Error why);

  void set_number(std::uint32_t index, Metric, std::int64_t value);
  void set_missing(std::uint32_t index, Metric, Missing);
  void set_memory_used(std::uint32_t index, std::int64_t bytes);
  void set_temperature(std::uint32_t index, std::int64_t celsius);
  // The GPU falls off the bus: it does not open any more, and every reading of it is lost.
  void remove_gpu(std::uint32_t index);

  // The GPU's driver calls block until unblocked: what a dying GPU does.
  void block(std::uint32_t index);
  void unblock(std::uint32_t index);

  Fleet fleet() const;
  std::unique_ptr<Backend> backend() const;

 private:
  struct State;
  explicit FakeFleet(std::shared_ptr<State> state) : state_(std::move(state)) {}

  friend class FakeBackend;
  std::shared_ptr<State> state_;
};

}  // namespace gpuyard
