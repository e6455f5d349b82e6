// One immutable value, handed from the thread that makes it to the threads that read it.
#pragma once

#include <memory>

#include "base/mutex.h"

namespace gpuyard {

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

}  // namespace gpuyard
