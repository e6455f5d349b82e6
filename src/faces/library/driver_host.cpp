#include "library/driver_host.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <charconv>

#include "driver/host.h"
#include "library/driver_source.h"

namespace gpuyard::library {
namespace {

// The soft limit with which the daemon was started. It raised its own for its connections; a driver
// that closes or scans "every descriptor" must not meet a million.
void lower_descriptor_limit(const std::string& text) {
  rlimit limit{};
  rlim_t soft = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, soft);
  if (parsed.ec != std::errc{} || parsed.ptr != end) return;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || soft >= limit.rlim_cur) return;
  limit.rlim_cur = soft;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

void run_driver_host(const std::vector<std::string>& arguments,
                     const std::string& simulated_library) {
  ::prctl(PR_SET_NAME, "gpuyard-host");  // started as /proc/self/exe, it would be called "exe"
  for (std::size_t i = 0; i + 1 < arguments.size(); i += 2) {
    if (arguments[i] == "--nofile") lower_descriptor_limit(arguments[i + 1]);
  }
  const auto choice = choice_of(arguments, simulated_library);
  driver::run_host_process([&] { return open_driver(choice); });
}

}  // namespace gpuyard::library
