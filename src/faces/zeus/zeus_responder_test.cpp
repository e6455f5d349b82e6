#include "faces/zeus/zeus_responder.h"

#include <gtest/gtest.h>

namespace gpuyard::zeus {
namespace {

using Ids = std::vector<std::uint32_t>;

TEST(ParseIds, AreTrimmedSortedAndOnceEach) {
  EXPECT_EQ(*parse_ids("0", "GPU"), Ids{0});
  EXPECT_EQ(*parse_ids(" 10 ,\t2,0, 2", "GPU"), (Ids{0, 2, 10}));
  EXPECT_EQ(*parse_ids("4294967295", "GPU"), Ids{4294967295});
}

// One bad element refuses the list: "0,abc" read as {0} would set the wrong GPUs.
TEST(ParseIds, OneInvalidIdRefusesList) {
  for (const char* text :
       {"", " ", ",", "0,", ",0", "0,,1", "0, ,1", "abc", "0,abc", "-1", "+1", "1.0", "0x1",
        "4294967296", "99999999999999999999", "0;1", "0 1", "all", "0,\xC3\xA9"}) {
    const auto ids = parse_ids(text, "GPU");
    ASSERT_FALSE(ids) << text;
    EXPECT_EQ(ids.error().code, Errc::invalid);
    EXPECT_NE(ids.error().message.find("GPU"), std::string::npos);
  }
}

}  // namespace
}  // namespace gpuyard::zeus
