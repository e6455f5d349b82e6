#include "nvml/privilege.h"

#include <unistd.h>

#include <gtest/gtest.h>

namespace gpuyard::nvml {
namespace {

TEST(Privilege, WithoutTheCapabilityItSaysWhatIsMissingAndHowToGetIt) {
  RecordProperty("contract", "E15");
  const auto may = may_administer({1000, false});
  ASSERT_FALSE(may.ok());
  EXPECT_EQ(may.error().code, Errc::denied);
  for (const char* word : {"CAP_SYS_ADMIN", "uid 1000", "root", "AmbientCapabilities"}) {
    EXPECT_NE(may.error().message.find(word), std::string::npos) << word;
  }
}

TEST(Privilege, TheCapabilityIsEnoughAndSoIsRoot) {
  EXPECT_TRUE(may_administer({1000, true}).ok());
  EXPECT_TRUE(may_administer({0, false}).ok());
}

TEST(Privilege, IsWhatTheKernelSaysOfThisThread) {
  EXPECT_EQ(effective_privilege().uid, ::geteuid());
}

}  // namespace
}  // namespace gpuyard::nvml
