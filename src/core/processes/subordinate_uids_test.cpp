#include "core/processes/subordinate_uids.h"

#include <gtest/gtest.h>

namespace gpuyard::processes {
namespace {

SubordinateUids parse(std::string_view text) {
  return SubordinateUids::parse(text, [](const std::string& name) -> Result<uid_t> {
    if (name == "alice") return 1000;
    if (name == "root") return 0;
    return Error{Errc::not_found, "there is no " + name};
  });
}

TEST(SubordinateUids, ARangeIsItsOwners) {
  const auto uids = parse("alice:100000:65536\n1001:165536:65536\n");
  EXPECT_EQ(uids.owner_of(99'999), 99'999U);
  EXPECT_EQ(uids.owner_of(100'000), 1000U);
  EXPECT_EQ(uids.owner_of(165'535), 1000U);
  EXPECT_EQ(uids.owner_of(165'536), 1001U);
  EXPECT_EQ(uids.owner_of(231'072), 231'072U);
  EXPECT_EQ(uids.owner_of(1000), 1000U);
}

TEST(SubordinateUids, RootOrUnknownUserRangeIsSeparateOwner) {
  const auto uids = parse("root:100000:1000\nnobody-knows:200000:1000");
  EXPECT_EQ(uids.owner_of(100'999), 100'000U);
  EXPECT_EQ(uids.owner_of(200'999), 200'000U);
}

TEST(SubordinateUids, MalformedRangeIsIgnored) {
  const auto uids = parse(
      "\n# a comment\nalice\nalice:\nalice:1\nalice:x:5\nalice:7:x\nalice:7:0\nalice:0:9\n:7:7\n"
      "alice:-7:7\nalice:99999999999:7\nalice:300000:5:1\nalice:400000:4294967295\n");
  EXPECT_EQ(uids.owner_of(0), 0U);
  EXPECT_EQ(uids.owner_of(7), 7U);
  EXPECT_EQ(uids.owner_of(300'001), 300'001U);
  EXPECT_EQ(uids.owner_of(399'999), 399'999U);
  EXPECT_EQ(uids.owner_of(4'294'967'294), 1000U) << "a range that ends beyond the last uid";
  EXPECT_EQ(uids.owner_of(4'294'967'295), 4'294'967'295U) << "the number that means no user";
}

}  // namespace
}  // namespace gpuyard::processes
