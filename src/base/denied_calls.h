// Takes system calls from this process that it never makes, and that a process which has been taken
// over would: typing into other users' terminals, reading other processes' memory.
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
// io_uring, and the keyring's. An error and never a signal: a library of a driver may try some of
// them and do without. The kernel asks for CAP_SYS_ADMIN or no_new_privs.
Result<void> deny_unused_calls(NewPrivileges);

}  // namespace gpuyard
