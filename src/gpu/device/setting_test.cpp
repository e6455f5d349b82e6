#include "gpu/device/setting.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

constexpr SettingValue kAllowed{100'000, 700'000};

TEST(Setting, TextShowsValueAndUnit) {
  EXPECT_EQ(text_of(power_limit(300'000)), "300 W");
  EXPECT_EQ(text_of(power_limit(300'500)), "300.500 W");
  EXPECT_EQ(text_of(gpu_clocks(1200, 1500)), "[1200, 1500] MHz");
  EXPECT_EQ(text_of(unlocked(SettingKind::memory_clocks)), "not locked");
  EXPECT_EQ(text_of(persistence(true)), "on");
  EXPECT_EQ(text_of(compute_mode(3)), "exclusive process");
}

TEST(Setting, OutOfRangeNamesTheRange) {
  const auto checked = check_setting(power_limit(900'000), {{}, {}, kAllowed, {}});
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().code, Errc::invalid);
  EXPECT_EQ(checked.error().message,
            "900 W is out of range: this GPU's power limit may be 100 W to 700 W");
  EXPECT_TRUE(check_setting(power_limit(100'000), {{}, {}, kAllowed, {}}).ok());
  EXPECT_TRUE(check_setting(power_limit(700'000), {{}, {}, kAllowed, {}}).ok());
}

TEST(Setting, InvalidValueIsRefusedWithoutKnownRange) {
  const SettingState nothing_known;
  for (const Setting& wrong :
       {power_limit(0), power_limit(-1), gpu_clocks(-5, 10), gpu_clocks(1500, 1200),
        compute_mode(1), compute_mode(4), Setting{SettingKind::power_limit, std::nullopt},
        Setting{SettingKind::ecc, SettingValue{2, 2}}}) {
    EXPECT_FALSE(check_setting(wrong, nothing_known).ok()) << text_of(wrong);
  }
  EXPECT_TRUE(check_setting(unlocked(SettingKind::gpu_clocks), nothing_known).ok());
}

}  // namespace
}  // namespace gpuyard
