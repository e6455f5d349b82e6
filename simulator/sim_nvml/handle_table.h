// Handles of things a client makes and frees: numbers that are looked up, never addresses that are
// followed, so that a wrong or an already freed one is an invalid argument and not a crash.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>

namespace gpuyard::sim_nvml {

// At most N at a time. Any thread.
template <class Handle, class T, std::size_t N>
class HandleTable {
 public:
  // Null if all N are in use.
  Handle make(const T& value) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < N; ++i) {
      if (values_[i]) continue;
      values_[i] = value;
      return handle_of(i);
    }
    return nullptr;
  }

  bool free(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto value = find(handle);
    if (value == nullptr) return false;
    value->reset();
    return true;
  }

  std::optional<T> get(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto value = find(handle);
    return value != nullptr ? *value : std::nullopt;
  }

  // `change(T&)` runs alone; false if there is no such thing (any more).
  template <class Change>
  bool change(Handle handle, Change&& change) {
    const std::lock_guard lock(mutex_);
    const auto value = find(handle);
    if (value == nullptr) return false;
    change(**value);
    return true;
  }

 private:
  // Not null, and no address of anything.
  static Handle handle_of(std::size_t i) {
    return reinterpret_cast<Handle>((static_cast<std::uintptr_t>(i) + 1) << 4);
  }

  std::optional<T>* find(Handle handle) {
    const auto number = reinterpret_cast<std::uintptr_t>(handle);
    const std::uintptr_t i = (number >> 4) - 1;
    if (number % 16 != 0 || i >= N || !values_[i]) return nullptr;
    return &values_[i];
  }

  std::mutex mutex_;
  std::array<std::optional<T>, N> values_;
};

}  // namespace gpuyard::sim_nvml
