#include "sim/fault.h"

#include <gtest/gtest.h>

#include "sim/model.h"
#include "sim/world_for_tests.h"

namespace gpuyard::sim {
namespace {

TEST(AddFault, CallFaultKeepsEarlierFaults) {
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

TEST(AddFault, SecondFaultOfCallReplacesFirst) {
  Fault fault = failing(Call::power_usage, 999);
  ASSERT_TRUE(add_fault(fault, failing(Call::power_usage, 3, 20)));
  EXPECT_EQ(fault, failing(Call::power_usage, 3, 20));
}

TEST(AddFault, ConditionsAccumulateAndLatestValueWins) {
  Fault fault;
  fault.power_brake = 1;
  fault.pcie_width = 8;
  Fault more;
  more.fans_stuck = 1;
  more.fan_percent = 20;
  more.pcie_width = 4;
  more.nvlinks_down = 2;
  more.recovery_action = RecoveryAction::drain_p2p;
  ASSERT_TRUE(add_fault(fault, more));
  EXPECT_EQ(conditions_of(fault),
            (std::vector<std::string>{"power_brake", "fan_stuck 20", "pcie_width 4",
                                      "nvlink_down 2", "recovery_action drain_p2p"}));
}

TEST(CheckFault, FaultUnsupportedByModelIsRefused) {
  Fault fans;
  fans.fans_stuck = 1;
  EXPECT_EQ(check_fault_on(*find_model("h100"), fans).error().code, Errc::unsupported);
  EXPECT_TRUE(check_fault_on(*find_model("rtx4090"), fans));
  Fault rows;
  rows.rows_failed = 1;
  EXPECT_EQ(check_fault_on(*find_model("t4"), rows).error().code, Errc::unsupported);
  Fault link;
  link.pcie_generation = 4;
  EXPECT_EQ(check_fault_on(*find_model("t4"), link).error().code, Errc::unsupported);
  link = {};
  link.pcie_width = 3;
  EXPECT_EQ(check_fault(link).error().code, Errc::invalid);
}

TEST(CheckFault, UnknownRecoveryActionIsRefused) {
  Fault fault;
  fault.recovery_action = RecoveryAction::drain_and_reset;
  EXPECT_TRUE(check_fault(fault));
  fault.recovery_action = static_cast<RecoveryAction>(5);
  EXPECT_EQ(check_fault(fault).error().code, Errc::invalid);
}

TEST(FaultOf, MostSpecificCallFaultWins) {
  Fault fault = failing(Call::any, 3);
  fault.calls[1] = {.call = Call::setters, .code = 4};
  fault.calls[2] = {.call = Call::set_ecc_mode, .code = 5};
  EXPECT_EQ(fault_of(fault.calls, Call::set_ecc_mode), 2U);
  EXPECT_EQ(fault_of(fault.calls, Call::set_power_limit), 1U);
  EXPECT_EQ(fault_of(fault.calls, Call::power_usage), 0U);
  EXPECT_EQ(fault_of(Fault{}.calls, Call::power_usage), std::nullopt);
}

TEST(AddFault, NinthCallIsRefusedWithoutChange) {
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
