// Whether this process may change GPUs: a real driver asks the kernel for CAP_SYS_ADMIN.
#pragma once

#include <sys/types.h>

#include "base/result.h"

namespace gpuyard::nvml {

struct Privilege {
  uid_t uid = 0;
  bool sys_admin = false;  // CAP_SYS_ADMIN is effective
};

// The calling thread's.
Privilege effective_privilege();

// Root is let through also where it seems to have no capabilities, as in some containers: the
// driver's own refusal says it better than a guess. Errc::denied says what is missing, and how to
// get it.
Result<void> may_administer(const Privilege&);

}  // namespace gpuyard::nvml
