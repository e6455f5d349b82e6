#include "base/nearest.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

TEST(Nearest, IsTheOneWithTheFewestLettersToChange) {
  const std::vector<std::string_view> names = {"memory.total", "memory.used", "name"};
  EXPECT_EQ(nearest("memory.totl", names), "memory.total");
  EXPECT_EQ(nearest("Name", names), "name");
  EXPECT_EQ(nearest("zzzz", names), "");
}

}  // namespace
}  // namespace gpuyard
