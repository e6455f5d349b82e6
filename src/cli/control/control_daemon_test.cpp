#include "cli/control/control_daemon.h"

#include <gtest/gtest.h>

namespace gpuyard::cli {
namespace {

TEST(Refusal, HasTheNameOfWhoeverIsRefused) {
  EXPECT_EQ(with_own_name("it: an administrator can say `usermod -aG gpuyard USER`, and", "alice"),
            "it: an administrator can say `sudo usermod -aG gpuyard alice`, and");
}

TEST(Refusal, ThatIsAboutSomethingElseIsAsItIs) {
  for (const char* text :
       {"", "no", "USER", "usermod -aG gpuyard", "`groupadd --system gpuyard`"}) {
    EXPECT_EQ(with_own_name(text, "alice"), text);
  }
}

}  // namespace
}  // namespace gpuyard::cli
