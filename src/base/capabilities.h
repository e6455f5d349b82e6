// The capabilities of the calling thread, as sets of bits: bit n is capability n.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace gpuyard {

// `capability`: a constant of <linux/capability.h>.
constexpr std::uint64_t capability_bit(int capability) {
  return std::uint64_t{1} << capability;
}

std::uint64_t effective_capabilities();

// Returns whether files decide more for this process than for an ordinary user's: it runs as root,
// or it has a capability. CAP_WAKE_ALARM and CAP_BLOCK_SUSPEND do not count, because systemd gives
// the first to all programs of a desktop session.
bool has_privileges();

// Gives up every capability that is not in `kept`, and leaves none for programs that this process
// starts. Root keeps all of its own: each program that it starts would have them again.
void keep_only_capabilities(std::uint64_t kept);

// The same for a process that starts no program: root's gives them up too, and none can come back.
Result<void> keep_only_capabilities_permanently(std::uint64_t kept);

// While this object lives, children of this thread inherit the capabilities in `kept` that it has,
// and no others. A service manager that starts us without root gives our capabilities as ambient
// ones, which every command that we start would have too. Root's children have root's.
class ChildCapabilities {
 public:
  explicit ChildCapabilities(std::uint64_t kept);
  ~ChildCapabilities();
  ChildCapabilities(const ChildCapabilities&) = delete;
  ChildCapabilities& operator=(const ChildCapabilities&) = delete;

 private:
  std::uint64_t inheritable_;
  std::uint64_t ambient_;
};

}  // namespace gpuyard
