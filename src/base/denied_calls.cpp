#include "base/denied_calls.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include <fmt/format.h>

#include "base/files.h"

namespace gpuyard {
namespace {

using FilterProgram = std::vector<sock_filter>;

// A way into the kernel with its own numbers for system calls. A process may use all of those that
// the kernel has, whatever it was compiled for.
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

sock_filter load_word(std::size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}

// Skips that many instructions unless the loaded word is `value`.
sock_filter skip_unless(std::uint32_t value, std::size_t instructions) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, static_cast<std::uint8_t>(instructions));
}

sock_filter answer(std::uint32_t what) {
  return BPF_STMT(BPF_RET | BPF_K, what);
}

void deny_if(FilterProgram& program, std::uint32_t value) {
  program.push_back(skip_unless(value, 1));
  program.push_back(answer(SECCOMP_RET_ERRNO | EPERM));
}

// The kernel reads 32 bits of a request, so a filter must not compare the others.
FilterProgram filter_of_ioctl() {
  constexpr std::size_t kRequest = offsetof(seccomp_data, args) + sizeof(std::uint64_t);
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  FilterProgram program{load_word(kRequest)};
  for (const std::uint32_t request : {TIOCSTI, TIOCLINUX, TIOCCONS}) deny_if(program, request);
  program.push_back(answer(SECCOMP_RET_ALLOW));
  return program;
}

void append(FilterProgram& program, const FilterProgram& more) {
  program.insert(program.end(), more.begin(), more.end());
}

FilterProgram filter_of(const SystemCallAbi& abi) {
  FilterProgram program{load_word(offsetof(seccomp_data, nr)),
                        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, abi.number_bits)};
  for (const std::uint32_t number : abi.denied) deny_if(program, number);
  const FilterProgram of_ioctl = filter_of_ioctl();
  for (const std::uint32_t number : abi.ioctls) {
    program.push_back(skip_unless(number, of_ioctl.size()));
    append(program, of_ioctl);
  }
  program.push_back(answer(SECCOMP_RET_ALLOW));
  return program;
}

FilterProgram whole_filter() {
  FilterProgram program;
  for (const SystemCallAbi& abi : abis_of_kernel()) {
    const FilterProgram own = filter_of(abi);
    program.push_back(load_word(offsetof(seccomp_data, arch)));
    program.push_back(skip_unless(abi.arch, own.size()));
    append(program, own);
  }
  program.push_back(answer(SECCOMP_RET_ALLOW));
  return program;
}

// SPEC_ALLOW: this filter guards no secret from this process itself, and kernels before 5.16 would
// slow it down against such reading.
Result<void> install(FilterProgram program) {
  const sock_fprog whole{static_cast<unsigned short>(program.size()), program.data()};
  const long done = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                              SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW, &whole);
  if (done < 0) return system_error("installing a seccomp filter");
  if (done == 0) return {};
  return Error{Errc::conflict,
               fmt::format("installing a seccomp filter: thread {} has another one", done)};
}

}  // namespace

Result<void> deny_unused_calls(NewPrivileges privileges) {
  auto done = install(whole_filter());
  if (done || done.error().code != Errc::denied || privileges == NewPrivileges::stay) return done;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return system_error("setting no_new_privs");
  return install(whole_filter());
}

}  // namespace gpuyard
