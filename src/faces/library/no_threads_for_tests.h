// A process that can start no thread.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace gpuyard {

// While it lives, no thread can be started: there is no memory for a stack of kTooMuch bytes.
class NoThreads {
 public:
  NoThreads() {
    constexpr std::size_t kTooMuch = std::size_t{1} << 62U;
    pthread_getattr_default_np(&usual_);
    pthread_attr_t none = usual_;
    pthread_attr_setstacksize(&none, kTooMuch);
    pthread_setattr_default_np(&none);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&usual_);
    pthread_attr_destroy(&usual_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t usual_{};
};

}  // namespace gpuyard
