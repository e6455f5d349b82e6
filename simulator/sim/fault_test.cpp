#include "sim/fault.h"

#include <gtest/gtest.h>

#include "sim/world_for_tests.h"

namespace gpuyard::sim {
namespace {

TEST(AddFault, ABrokenCallLeavesALostGpuLostAndOtherCallsBroken) {
  Fault fault;
  fault.lost = 1;
  ASSERT_TRUE(add_fault(fault, failing(Call::power_usage, 999)));
  ASSERT_TRUE(add_fault(fault, failing(Call::temperature, 15)));
  EXPECT_EQ(fault.lost, 1U);
  EXPECT_EQ(fault.calls[0], failing(Call::power_usage, 999).calls[0]);
  EXPECT_EQ(fault.calls[1], failing(Call::temperature, 15).calls[0]);
}

TEST(AddFault, ALostGpuKeepsItsBrokenCalls) {
  Fault fault = failing(Call::power_usage, 999);
  Fault lost;
  lost.lost = 1;
  ASSERT_TRUE(add_fault(fault, lost));
  EXPECT_EQ(fault.lost, 1U);
  EXPECT_EQ(fault.calls[0].code, 999);
}

TEST(AddFault, TheSameCallFailsAsItWasToldLast) {
  Fault fault = failing(Call::power_usage, 999);
  ASSERT_TRUE(add_fault(fault, failing(Call::power_usage, 3, 20)));
  EXPECT_EQ(fault, failing(Call::power_usage, 3, 20));
}

TEST(AddFault, ANinthCallIsRefusedAndNothingChanges) {
  Fault fault;
  for (std::uint32_t i = 0; i < kMaxCallFaults; ++i) {
    const auto call = static_cast<Call>(static_cast<std::uint32_t>(Call::any) + i);
    ASSERT_TRUE(add_fault(fault, failing(call, 999)));
  }
  const Fault before = fault;
  Fault more = failing(Call::fan_speed, 999);
  more.lost = 1;
  const auto added = add_fault(fault, more);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Errc::conflict);
  EXPECT_NE(added.error().message.find("8 driver calls"), std::string::npos);
  EXPECT_EQ(fault, before);
  EXPECT_TRUE(add_fault(fault, failing(Call::any, 3)));  // one of the eight
}

}  // namespace
}  // namespace gpuyard::sim
