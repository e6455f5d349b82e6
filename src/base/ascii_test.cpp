#include "base/ascii.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

TEST(Ascii, LowersLettersAndNothingElse) {
  EXPECT_EQ(to_lower("00000000:AF:00.0 @[`{ \xC3\x84"), "00000000:af:00.0 @[`{ \xC3\x84");
  EXPECT_EQ(to_lower(""), "");
  EXPECT_EQ(to_lower('Z'), 'z');
}

TEST(Ascii, NamesAreTheSameWhateverTheirCase) {
  EXPECT_TRUE(equals_ignoring_case("Content-Type", "content-TYPE"));
  EXPECT_TRUE(equals_ignoring_case("", ""));
  EXPECT_FALSE(equals_ignoring_case("Host", "Hos"));
  EXPECT_FALSE(equals_ignoring_case("@", "`"));  // 32 apart, as letters are
  EXPECT_FALSE(equals_ignoring_case("\xC3\x84", "\xC3\xA4"));
}

}  // namespace
}  // namespace gpuyard
