#include "base/denied_calls.h"

#include <linux/audit.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "base/files.h"
#include "base/seccomp_program.h"

namespace gpuyard {
namespace {

// An interface of the kernel with its own numbers for system calls. A process may use all of those
// that the kernel has, whatever it was compiled for.
struct SystemCallAbi {
  std::uint32_t arch;
  std::uint32_t number_bits;  // the bits of a number that tell the call
  std::vector<std::uint32_t> ioctls;
  std::vector<std::uint32_t> denied;
};

std::vector<SystemCallAbi> abis_of_kernel() {
  const std::vector<std::uint32_t> io_uring = {425, 426, 427};  // of every ABI
  const auto with_io_uring = [&](std::vector<std::uint32_t> numbers) {
    numbers.insert(numbers.end(), io_uring.begin(), io_uring.end());
    return numbers;
  };
  // In the order process_vm_readv, process_vm_writev, add_key, request_key, keyctl.
#if defined(__x86_64__)
  // x32 has the arch of x86-64, sets a bit in each number, and has some calls under a second one.
  constexpr std::uint32_t kX32 = 0x40000000;
  return {{AUDIT_ARCH_X86_64, ~kX32, {16, 514}, with_io_uring({310, 311, 539, 540, 248, 249, 250})},
          {AUDIT_ARCH_I386, ~0U, {54}, with_io_uring({347, 348, 286, 287, 288})}};
#elif defined(__aarch64__)
  return {{AUDIT_ARCH_AARCH64, ~0U, {29}, with_io_uring({270, 271, 217, 218, 219})},
          {AUDIT_ARCH_ARM, ~0U, {54}, with_io_uring({376, 377, 309, 310, 311})}};
#else
#error "the numbers of this architecture's system calls are not listed here"
#endif
}

void deny_if(SeccompProgram& program, std::uint32_t value) {
  program.skip_unless(value, 1);
  program.deny();
}

// The kernel reads 32 bits of a request, so a filter must not compare the others.
SeccompProgram program_of_ioctl() {
  SeccompProgram program;
  program.load_argument(1);
  for (const unsigned request : {unsigned{TIOCSTI}, unsigned{TIOCLINUX}, unsigned{TIOCCONS}}) {
    deny_if(program, request);
  }
  program.allow();
  return program;
}

SeccompProgram program_of(const SystemCallAbi& abi) {
  SeccompProgram program;
  program.load_number();
  program.mask(abi.number_bits);
  for (const std::uint32_t number : abi.denied) deny_if(program, number);
  const SeccompProgram of_ioctl = program_of_ioctl();
  for (const std::uint32_t number : abi.ioctls) {
    program.skip_unless(number, of_ioctl.size());
    program.append(of_ioctl);
  }
  program.allow();
  return program;
}

SeccompProgram whole_program() {
  SeccompProgram program;
  for (const SystemCallAbi& abi : abis_of_kernel()) {
    const SeccompProgram own = program_of(abi);
    program.load_architecture();
    program.skip_unless(abi.arch, own.size());
    program.append(own);
  }
  program.allow();
  return program;
}

}  // namespace

Result<void> deny_unused_calls(NewPrivileges privileges) {
  auto done = whole_program().install();
  if (done || done.error().code != Errc::denied || privileges == NewPrivileges::required)
    return done;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return system_error("setting no_new_privs");
  return whole_program().install();
}

}  // namespace gpuyard
