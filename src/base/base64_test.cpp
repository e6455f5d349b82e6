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

TEST(Base64, DecodingReversesEncoding) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) {
    bytes += static_cast<char>(byte);
    EXPECT_EQ(decode_base64(encode_base64(bytes)), bytes);
  }
  EXPECT_EQ(decode_base64(""), "");
}

TEST(Base64, MalformedTextIsNotDecoded) {
  for (const char* text :
       {"Zg", "Zg=", "Z===", "====", "Zm9v\n", " Zm9vYg==", "Zh==", "Zm9-", "Z=g="}) {
    EXPECT_EQ(decode_base64(text), std::nullopt) << text;
  }
}

}  // namespace

}  // namespace gpuyard
