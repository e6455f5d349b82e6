// Handles of objects that a client makes and frees: numbers that are looked up, never addresses
// that are dereferenced. No number is used twice, so a wrong or freed handle is an invalid
// argument.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>

#include "base/mutex.h"

namespace gpuyard::sim_nvml {

// At most N objects at a time. Any thread.
template <class Handle, class T, std::size_t N>
class HandleTable {
 public:
  // Null if all N are in use.
  Handle make(const T& value) {
    const MutexLock lock(mutex_);
    for (std::size_t i = 0; i < N; ++i) {
      Slot& place = slots_[i];
      if (place.value) continue;
      place.value = value;
      place.number = ++made_ * N + i;
      return std::bit_cast<Handle>(place.number);
    }
    return nullptr;
  }

  bool free(Handle handle) {
    const MutexLock lock(mutex_);
    const auto value = find(handle);
    if (value == nullptr) return false;
    value->reset();
    return true;
  }

  std::optional<T> get(Handle handle) {
    const MutexLock lock(mutex_);
    const auto value = find(handle);
    return value != nullptr ? *value : std::nullopt;
  }

  // Runs `change(T&)` under the lock; false if the handle is not, or no longer, valid.
  template <class Change>
  bool change(Handle handle, Change&& change) {
    const MutexLock lock(mutex_);
    const auto value = find(handle);
    if (value == nullptr) return false;
    change(**value);
    return true;
  }

 private:
  struct Slot {
    std::uintptr_t number = 0;  // the handle; modulo N it is the place
    std::optional<T> value;
  };

  std::optional<T>* find(Handle handle) REQUIRES(mutex_) {
    const auto number = reinterpret_cast<std::uintptr_t>(handle);
    Slot& place = slots_[number % N];
    return place.value && place.number == number ? &place.value : nullptr;
  }

  Mutex mutex_;
  std::uintptr_t made_ GUARDED_BY(mutex_) = 0;
  std::array<Slot, N> slots_ GUARDED_BY(mutex_);
};

}  // namespace gpuyard::sim_nvml
