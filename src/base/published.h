// One immutable value, handed from the thread that makes it to the threads that read it.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace gpuyard {

// Any thread may call either. A mutex rather than std::atomic<std::shared_ptr>: equally fast here,
// and ThreadSanitizer reports false races inside libstdc++ 12's atomic one.
template <class T>
class Published {
 public:
  std::shared_ptr<const T> load() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }
  void store(std::shared_ptr<const T> value) {
    const std::lock_guard lock(mutex_);
    value_.swap(value);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const T> value_;
};

}  // namespace gpuyard
