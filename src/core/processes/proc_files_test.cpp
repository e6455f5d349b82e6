#include "core/processes/proc_files.h"

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace gpuyard::processes {
namespace {

TEST(ValidText, IsCutBetweenCharacters) {
  EXPECT_EQ(valid_text("ab\u20ac", 4), "ab");
  EXPECT_EQ(valid_text("ab\u20ac", 5), "ab\u20ac");
  EXPECT_EQ(valid_text("\xE2\x82", 5), "\uFFFD\uFFFD");
}

TEST(ProcessExists, AsTheKernelSays) {
  EXPECT_TRUE(process_exists(static_cast<std::uint32_t>(::getpid())));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(process_exists(static_cast<std::uint32_t>(child)));
}

}  // namespace
}  // namespace gpuyard::processes
