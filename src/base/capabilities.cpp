#include "base/capabilities.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "base/files.h"

namespace gpuyard {
namespace {

struct CapabilitySets {
  std::uint64_t effective = 0;
  std::uint64_t permitted = 0;
  std::uint64_t inheritable = 0;
};

using CapabilityWords = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

__user_cap_header_struct capability_header() {
  return {_LINUX_CAPABILITY_VERSION_3, 0};  // 0: this thread
}

// The wrappers of these system calls are in a library of its own.
CapabilitySets own_capabilities() {
  auto header = capability_header();
  CapabilityWords words{};
  if (::syscall(SYS_capget, &header, words.data()) != 0) return {};
  const auto joined = [](std::uint32_t low, std::uint32_t high) {
    return std::uint64_t{high} << 32 | low;
  };
  return {joined(words[0].effective, words[1].effective),
          joined(words[0].permitted, words[1].permitted),
          joined(words[0].inheritable, words[1].inheritable)};
}

Result<void> set_own_capabilities(const CapabilitySets& sets) {
  auto header = capability_header();
  CapabilityWords words{};
  for (unsigned i = 0; i < words.size(); ++i) {
    words[i] = {static_cast<std::uint32_t>(sets.effective >> (32 * i)),
                static_cast<std::uint32_t>(sets.permitted >> (32 * i)),
                static_cast<std::uint32_t>(sets.inheritable >> (32 * i))};
  }
  if (::syscall(SYS_capset, &header, words.data()) == 0) return {};
  return system_error("setting capabilities");
}

std::uint64_t ambient_capabilities() {
  std::uint64_t set = 0;
  for (int each = 0; ::prctl(PR_CAPBSET_READ, each, 0, 0, 0) >= 0; ++each) {
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, each, 0, 0) == 1)
      set |= capability_bit(each);
  }
  return set;
}

// The kernel refuses those that are not both permitted and inheritable.
void set_ambient_capabilities(std::uint64_t set) {
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  for (int each = 0; each <= CAP_LAST_CAP; ++each) {
    if ((set & capability_bit(each)) != 0)
      ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, each, 0, 0);
  }
}

}  // namespace

std::uint64_t effective_capabilities() {
  return own_capabilities().effective;
}

bool has_privileges() {
  constexpr std::uint64_t kHarmless =
      capability_bit(CAP_WAKE_ALARM) | capability_bit(CAP_BLOCK_SUSPEND);
  return ::geteuid() == 0 || (effective_capabilities() & ~kHarmless) != 0;
}

void keep_only_capabilities(std::uint64_t kept) {
  CapabilitySets sets = own_capabilities();
  if (::geteuid() != 0) {
    sets.effective &= kept;
    sets.permitted &= kept;
  }
  sets.inheritable = 0;
  // No capability is ambient that is not inheritable.
  static_cast<void>(set_own_capabilities(sets).ok());
}

Result<void> keep_only_capabilities_permanently(std::uint64_t kept) {
  const CapabilitySets before = own_capabilities();
  const CapabilitySets after{before.permitted & kept, before.permitted & kept, 0};
  // Nothing to give up. A unit that gives no others has a system call filter that refuses changes.
  if (before.permitted == after.permitted) return {};
  for (int each = 0; ::prctl(PR_CAPBSET_READ, each, 0, 0, 0) >= 0; ++each) {
    ::prctl(PR_CAPBSET_DROP, each, 0, 0, 0);
  }
  return set_own_capabilities(after);
}

ChildCapabilities::ChildCapabilities(std::uint64_t kept) : ambient_(ambient_capabilities()) {
  CapabilitySets sets = own_capabilities();
  // Without CAP_SETPCAP nothing else could be restored.
  inheritable_ = sets.inheritable & sets.permitted;
  sets.inheritable = kept & sets.permitted;
  static_cast<void>(set_own_capabilities(sets).ok());
  set_ambient_capabilities(kept & sets.permitted);
}

ChildCapabilities::~ChildCapabilities() {
  CapabilitySets sets = own_capabilities();
  sets.inheritable = inheritable_;
  static_cast<void>(set_own_capabilities(sets).ok());
  set_ambient_capabilities(ambient_);
}

}  // namespace gpuyard
