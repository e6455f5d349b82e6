#include "processes/traces.h"

#include <gtest/gtest.h>

#include "processes/proc_tree_for_tests.h"

namespace gpuyard::processes {
namespace {

constexpr std::uint32_t kRoot = 0;

// su while it waits for a password, a program that gave its rights up for now, and one like all.
TEST(Traces, OfWhomeverItMayBecomeAProcessIsNotAlone) {
  ProcTree proc;
  const std::string marked = "GPUYARD_LEASE=0123456789abcdef";
  proc.put({.pid = 7, .start_ticks = 1, .environment = marked});
  proc.put({.pid = 8, .start_ticks = 1, .uid = kRoot, .environment = marked});
  proc.put({.pid = 9, .start_ticks = 1, .saved_uid = kRoot, .environment = marked});
  EXPECT_TRUE(read_gpu_user(proc.root(), 7)->traces.one_user);
  EXPECT_FALSE(read_gpu_user(proc.root(), 8)->traces.one_user);
  EXPECT_FALSE(read_gpu_user(proc.root(), 9)->traces.one_user);
  EXPECT_EQ(read_gpu_user(proc.root(), 9)->traces.marked, "0123456789abcdef");
}

}  // namespace
}  // namespace gpuyard::processes
