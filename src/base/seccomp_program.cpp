#include "base/seccomp_program.h"

#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

#include "base/files.h"

namespace gpuyard {

void SeccompProgram::load(std::size_t offset) {
  code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)));
}

void SeccompProgram::load_architecture() {
  load(offsetof(seccomp_data, arch));
}

void SeccompProgram::load_number() {
  load(offsetof(seccomp_data, nr));
}

void SeccompProgram::load_argument(std::size_t number) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  load(offsetof(seccomp_data, args) + number * sizeof(std::uint64_t));
}

void SeccompProgram::mask(std::uint32_t bits) {
  code_.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits));
}

void SeccompProgram::skip_unless(std::uint32_t value, std::size_t instructions) {
  code_.push_back(
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, static_cast<std::uint8_t>(instructions)));
}

void SeccompProgram::skip_if_any(std::uint32_t bits, std::size_t instructions) {
  code_.push_back(
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, static_cast<std::uint8_t>(instructions), 0));
}

void SeccompProgram::allow() {
  code_.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
}

void SeccompProgram::deny() {
  code_.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
}

void SeccompProgram::append(const SeccompProgram& more) {
  code_.insert(code_.end(), more.code_.begin(), more.code_.end());
}

// SPEC_ALLOW: this filter guards no secret from this process itself, and kernels before 5.16 would
// slow it down against such reading.
Result<void> SeccompProgram::install() const {
  std::vector<sock_filter> code = code_;
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  const long done = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                              SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
  if (done < 0) return system_error("installing a seccomp filter");
  if (done == 0) return {};
  return Error{Errc::conflict,
               fmt::format("installing a seccomp filter: thread {} has another one", done)};
}

}  // namespace gpuyard
