// Denies this process the system calls that it never makes, but would make once an attacker
// controls it: typing into other users' terminals, reading other processes' memory.
#pragma once

#include "base/result.h"

namespace gpuyard {

enum class NewPrivileges {
  droppable,  // no_new_privs is set if the kernel asks for it: children gain nothing by setuid
              // programs
  required,   // Errc::denied instead
};

// Makes these calls fail with EPERM, for good, in each thread of this process and each child that
// it starts: ioctl with TIOCSTI, TIOCLINUX or TIOCCONS, process_vm_readv and process_vm_writev,
// io_uring, and the keyring's. They never raise a signal, because a driver's library may try some
// of them and do without. The kernel asks for CAP_SYS_ADMIN or no_new_privs.
Result<void> deny_unused_calls(NewPrivileges);

}  // namespace gpuyard
