// Values that one thread makes and another uses.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"

namespace gpuyard {

// One immutable value, for all threads that read it.
// Thread: any. A mutex rather than std::atomic<std::shared_ptr>: equally fast here,
// and ThreadSanitizer reports false races inside libstdc++ 12's atomic one.
template <class T>
class Published {
 public:
  std::shared_ptr<const T> load() const {
    const MutexLock lock(mutex_);
    return value_;
  }
  void store(std::shared_ptr<const T> value) {
    const MutexLock lock(mutex_);
    value_.swap(value);
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const T> value_ GUARDED_BY(mutex_);
};

// The newest value, for the one thread that takes it. One that was not taken is dropped.
// Thread: any.
template <class T>
class Handover {
 public:
  void put(T value) {
    const MutexLock lock(mutex_);
    value_ = std::move(value);
  }
  std::optional<T> take() {
    const MutexLock lock(mutex_);
    return std::exchange(value_, std::nullopt);
  }

 private:
  Mutex mutex_;
  std::optional<T> value_ GUARDED_BY(mutex_);
};

}  // namespace gpuyard
