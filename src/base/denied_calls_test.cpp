#include "base/denied_calls.h"

#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/own_process_for_tests.h"

namespace gpuyard {
namespace {

constexpr int kNotDenied = 100;  // exit code
constexpr int kNoFilter = 101;

struct DeniedCall {
  const char* name;
  long (*make)();
};

long make_call(long number, long first = -1, unsigned long second = 0, unsigned long third = 0) {
  return ::syscall(number, first, second, third, 0, 0, 0);
}

const std::vector<DeniedCall>& denied_calls() {
  static const std::vector<DeniedCall> calls = {
      {"TIOCSTI", [] { return make_call(SYS_ioctl, -1, TIOCSTI); }},
      {"TIOCLINUX", [] { return make_call(SYS_ioctl, -1, TIOCLINUX); }},
      {"TIOCCONS", [] { return make_call(SYS_ioctl, -1, TIOCCONS); }},
      {"TIOCSTI with bits that the kernel ignores",
       [] { return make_call(SYS_ioctl, -1, 0xABCD'0000'0000UL | TIOCSTI); }},
      {"process_vm_readv", [] { return make_call(SYS_process_vm_readv, 0); }},
      {"process_vm_writev", [] { return make_call(SYS_process_vm_writev, 0); }},
      {"io_uring_setup", [] { return make_call(425, 0); }},
      {"io_uring_enter", [] { return make_call(426); }},
      {"io_uring_register", [] { return make_call(427); }},
      {"add_key", [] { return make_call(SYS_add_key, 0); }},
      {"request_key", [] { return make_call(SYS_request_key, 0); }},
      {"keyctl", [] { return make_call(SYS_keyctl); }},
#if defined(__x86_64__)
      {"TIOCSTI as x32", [] { return make_call(0x40000000 | 514, -1, TIOCSTI); }},
      {"process_vm_readv as x32", [] { return make_call(0x40000000 | 539, 0); }},
      {"keyctl as x32", [] { return make_call(0x40000000 | SYS_keyctl); }},
#endif
  };
  return calls;
}

TEST(DeniedCalls, FailWithAnErrorAndOthersAreMade) {
  for (const DeniedCall& call : denied_calls()) {
    EXPECT_EQ(run_in_own_process([&] {
                if (!deny_unused_calls(NewPrivileges::droppable)) return kNoFilter;
                return call.make() == -1 ? errno : kNotDenied;
              }),
              EPERM)
        << call.name;
  }
  EXPECT_EQ(run_in_own_process([] {
              if (!deny_unused_calls(NewPrivileges::droppable)) return kNoFilter;
              return make_call(SYS_ioctl, -1, TIOCGWINSZ) == -1 ? errno : kNotDenied;
            }),
            EBADF);
}

TEST(DeniedCalls, AreDeniedToThreadsThatRanBefore) {
  EXPECT_EQ(run_in_own_process([] {
              int went = -1;
              int result = kNotDenied;
              int pipe[2];
              if (::pipe(pipe) != 0) return kNotDenied;
              std::thread before([&] {
                char ignored = 0;
                went = static_cast<int>(::read(pipe[0], &ignored, 1));
                if (make_call(SYS_ioctl, -1, TIOCSTI) == -1) result = errno;
              });
              const bool done = deny_unused_calls(NewPrivileges::droppable).ok();
              if (::write(pipe[1], "", 1) != 1) return kNotDenied;
              before.join();
              return done && went == 1 ? result : kNoFilter;
            }),
            EPERM);
}

#if defined(__x86_64__)
// Makes ioctl(-1, TIOCSTI) by the 32-bit way into the kernel, and returns its result.
int ioctl_of_i386() {
  int result = 54;
  asm volatile("int $0x80" : "+a"(result) : "b"(-1), "c"(TIOCSTI), "d"(0) : "memory");
  return -result;
}

TEST(DeniedCalls, AreDeniedToThe32BitAbi) {
  if (run_in_own_process(ioctl_of_i386) != EBADF) GTEST_SKIP() << "this kernel has no 32-bit calls";
  EXPECT_EQ(run_in_own_process([] {
              if (!deny_unused_calls(NewPrivileges::droppable)) return kNoFilter;
              return ioctl_of_i386();
            }),
            EPERM);
}
#endif

TEST(DeniedCalls, CostNoNewPrivsOnlyWithoutCapability) {
  const auto no_new_privs = [](NewPrivileges privileges) {
    return run_in_own_process([privileges] {
      const bool done = deny_unused_calls(privileges).ok();
      return done ? ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) : kNoFilter;
    });
  };
  const int before = ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
  if (::geteuid() == 0) {
    EXPECT_EQ(no_new_privs(NewPrivileges::droppable), before);
    EXPECT_EQ(run_in_own_process([] {
                if (::setresuid(65534, 65534, 65534) != 0) return kDiedInTest;
                const auto done = deny_unused_calls(NewPrivileges::required);
                return done ? kNotDenied : ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
              }),
              before == 0 ? 0 : kNotDenied);
    EXPECT_EQ(run_in_own_process([] {
                if (::setresuid(65534, 65534, 65534) != 0) return kDiedInTest;
                const auto done = deny_unused_calls(NewPrivileges::droppable);
                return done ? ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) : kNoFilter;
              }),
              1);
  } else {
    EXPECT_EQ(no_new_privs(NewPrivileges::droppable), 1);
  }
}

}  // namespace
}  // namespace gpuyard
