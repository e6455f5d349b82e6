// Counts the allocations of the program into which it is loaded, in a file that COUNT_ALLOCATIONS
// names with the pid behind it: those of its main thread, and those of its other threads, as two
// 64-bit numbers. Built and preloaded by test_counted.py.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

struct Counts {
  std::atomic<std::uint64_t> main_thread;
  std::atomic<std::uint64_t> other_threads;
};

Counts* open_counts() {
  const char* const name = std::getenv("COUNT_ALLOCATIONS");
  if (name == nullptr) return nullptr;
  char path[4096];
  std::snprintf(path, sizeof path, "%s.%d", name, ::getpid());
  const int file = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ::ftruncate(file, sizeof(Counts)) != 0) return nullptr;
  void* const mapped = ::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  return mapped == MAP_FAILED ? nullptr : static_cast<Counts*>(mapped);
}

Counts* counts = nullptr;

__attribute__((constructor)) void begin() {
  counts = open_counts();
}

void count() {
  if (counts == nullptr) return;
  thread_local const bool is_main = ::syscall(SYS_gettid) == ::getpid();
  (is_main ? counts->main_thread : counts->other_threads).fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

extern "C" void* __libc_malloc(size_t);
extern "C" void* __libc_calloc(size_t, size_t);
extern "C" void* __libc_realloc(void*, size_t);
extern "C" void* __libc_memalign(size_t, size_t);

extern "C" void* malloc(size_t size) {
  count();
  return __libc_malloc(size);
}
extern "C" void* calloc(size_t number, size_t size) {
  count();
  return __libc_calloc(number, size);
}
extern "C" void* realloc(void* old, size_t size) {
  count();
  return __libc_realloc(old, size);
}
extern "C" void* aligned_alloc(size_t alignment, size_t size) {
  count();
  return __libc_memalign(alignment, size);
}
extern "C" int posix_memalign(void** result, size_t alignment, size_t size) {
  count();
  *result = __libc_memalign(alignment, size);
  return *result == nullptr ? 12 : 0;
}
