#include "base/base64.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

TEST(Base64, IsTheOneOfRfc4648) {
  EXPECT_EQ(encode_base64(""), "");
  EXPECT_EQ(encode_base64("f"), "Zg==");
  EXPECT_EQ(encode_base64("foob"), "Zm9vYg==");
  EXPECT_EQ(encode_base64("foobar"), "Zm9vYmFy");
}

}  // namespace

}  // namespace gpuyard
