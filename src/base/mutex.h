// A mutex that says what it guards: clang checks at each build that a member is used only with its
// mutex held (-Wthread-safety). libstdc++'s std::mutex and std::lock_guard have no annotations, so
// the analysis does not see them. Other compilers ignore the annotations.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#ifdef __clang__
#define GPUYARD_ANNOTATION(x) __attribute__((x))
#else
#define GPUYARD_ANNOTATION(x)
#endif

#define CAPABILITY(name) GPUYARD_ANNOTATION(capability(name))
#define SCOPED_CAPABILITY GPUYARD_ANNOTATION(scoped_lockable)
// Of a member: it is used only with this mutex held.
#define GUARDED_BY(mutex) GPUYARD_ANNOTATION(guarded_by(mutex))
// Of a function: the caller holds this mutex, or must not hold it.
#define REQUIRES(mutex) GPUYARD_ANNOTATION(requires_capability(mutex))
#define EXCLUDES(mutex) GPUYARD_ANNOTATION(locks_excluded(mutex))
// Of a function: it locks, or unlocks, this mutex, without an argument the object itself.
#define ACQUIRE(...) GPUYARD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RELEASE(...) GPUYARD_ANNOTATION(release_capability(__VA_ARGS__))
#define TRY_ACQUIRE(result) GPUYARD_ANNOTATION(try_acquire_capability(result))
#define NO_THREAD_SAFETY_ANALYSIS GPUYARD_ANNOTATION(no_thread_safety_analysis)

namespace gpuyard {

// A BasicLockable: std::condition_variable_any, which knows std::stop_token, waits on it.
class CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }
  bool try_lock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class ConditionVariable;
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds the mutex to the end of the scope. unlock() ends that before, until lock().
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() RELEASE() = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() ACQUIRE() { lock_.lock(); }
  void unlock() RELEASE() { lock_.unlock(); }

 private:
  std::unique_lock<std::mutex> lock_;
};

// Releases the mutex, which the caller holds, to the end of the scope.
class SCOPED_CAPABILITY MutexRelease {
 public:
  explicit MutexRelease(Mutex& mutex) RELEASE(mutex) : mutex_(mutex) { mutex_.unlock(); }
  ~MutexRelease() RELEASE() { mutex_.lock(); }
  MutexRelease(const MutexRelease&) = delete;
  MutexRelease& operator=(const MutexRelease&) = delete;

 private:
  Mutex& mutex_;
};

// The analysis does not know that a predicate is called with the mutex held; the predicate says so
// itself: [&]() REQUIRES(mutex_) { return ended_; }
class ConditionVariable {
 public:
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

  template <class Predicate>
  void wait(Mutex& mutex, Predicate predicate) REQUIRES(mutex) NO_THREAD_SAFETY_ANALYSIS {
    Adopted adopted(mutex.mutex_);
    condition_.wait(adopted.lock, std::move(predicate));
  }
  // Returns predicate(), which may still be false after `timeout`.
  template <class Rep, class Period, class Predicate>
  bool wait_for(Mutex& mutex, const std::chrono::duration<Rep, Period>& timeout,
                Predicate predicate) REQUIRES(mutex) NO_THREAD_SAFETY_ANALYSIS {
    Adopted adopted(mutex.mutex_);
    return condition_.wait_for(adopted.lock, timeout, std::move(predicate));
  }

 private:
  // Lends the caller's lock to std::condition_variable.
  struct Adopted {
    explicit Adopted(std::mutex& mutex) : lock(mutex, std::adopt_lock) {}
    ~Adopted() { lock.release(); }
    Adopted(const Adopted&) = delete;
    Adopted& operator=(const Adopted&) = delete;
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable condition_;
};

}  // namespace gpuyard
