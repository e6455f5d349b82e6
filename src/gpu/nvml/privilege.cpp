#include "nvml/privilege.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include <fmt/format.h>

namespace gpuyard::nvml {

Privilege effective_privilege() {
  Privilege privilege{::geteuid(), false};
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};
  // By system call: the wrapper is in a library of its own.
  if (::syscall(SYS_capget, &header, data.data()) == 0) {
    privilege.sys_admin =
        (data[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective & CAP_TO_MASK(CAP_SYS_ADMIN)) != 0;
  }
  return privilege;
}

Result<void> may_administer(const Privilege& privilege) {
  if (privilege.sys_admin || privilege.uid == 0) return {};
  return Error{Errc::denied,
               fmt::format("changing GPUs needs CAP_SYS_ADMIN, which this process (uid {}) does "
                           "not have; run it as root, or give its systemd unit "
                           "AmbientCapabilities=CAP_SYS_ADMIN",
                           privilege.uid)};
}

}  // namespace gpuyard::nvml
