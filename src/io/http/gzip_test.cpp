#include "http/gzip.h"

#include <gtest/gtest.h>

namespace gpuyard::http {
namespace {

constexpr std::size_t kPlenty = 1 << 20;

TEST(Gzip, ComesBackAsItWas) {
  for (const std::string& plain : {std::string(), std::string("x"), std::string(300'000, 'y')}) {
    EXPECT_EQ(gunzip(gzip(plain), kPlenty), plain);
  }
  EXPECT_LT(gzip(std::string(300'000, 'y')).size(), 3000U);
}

TEST(Gzip, HasTheFrameThatBrowsersKnow) {
  EXPECT_EQ(gzip("x").substr(0, 3), "\x1f\x8b\x08");
}

TEST(Gunzip, RefusesWhatIsCutShortChangedOrNoGzip) {
  const std::string packed = gzip(std::string(5000, 'x') + "end");
  EXPECT_FALSE(gunzip(packed.substr(0, packed.size() - 1), kPlenty));
  std::string changed = packed;
  changed[packed.size() - 6] ^= 1;  // in the checksum
  EXPECT_FALSE(gunzip(changed, kPlenty));
  EXPECT_FALSE(gunzip("no gzip", kPlenty));
  EXPECT_FALSE(gunzip("", kPlenty));
}

TEST(Gunzip, StopsAtItsLimit) {
  const std::string packed = gzip(std::string(10'000, 'x'));
  EXPECT_FALSE(gunzip(packed, 9'999));
  EXPECT_TRUE(gunzip(packed, 10'000));
}

}  // namespace
}  // namespace gpuyard::http
