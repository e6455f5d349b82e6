// Collects the calls of other threads for a test, which can wait for them.
#pragma once

#include <chrono>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace gpuyard::driver {

inline constexpr std::chrono::seconds kTestTimeout{30};  // only a broken test waits this long

template <class Reply>
class CapturedReplies {
 public:
  void operator()(Reply reply) {
    const MutexLock lock(mutex_);
    all_.push_back(std::move(reply));
    changed_.notify_all();
  }
  // Waits until there are `count` of them or kTestTimeout has passed.
  std::vector<Reply> wait_for(std::size_t count) {
    const MutexLock lock(mutex_);
    changed_.wait_for(mutex_, kTestTimeout,
                      [&]() REQUIRES(mutex_) { return all_.size() >= count; });
    return all_;
  }
  std::vector<Reply> so_far() { return wait_for(0); }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Reply> all_ GUARDED_BY(mutex_);
};

}  // namespace gpuyard::driver
