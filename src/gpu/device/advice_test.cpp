#include "device/advice.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

TEST(Advice, SaysHowToFindTheLibraryThatIsMissing) {
  RecordProperty("contract", "C18 E13");
  for (const char* reason :
       {"NVML Shared Library Not Found",
        "/nowhere/lib.so: cannot open shared object file: No such file or directory"}) {
    const auto advice = advice_on_driver(reason, "--nvml PATH");
    for (const char* way : {"libnvidia-ml.so.1 comes with the NVIDIA driver", "ldconfig -p",
                            "container toolkit", "named with --nvml PATH"}) {
      EXPECT_NE(advice.find(way), std::string::npos) << reason << ": " << way;
    }
  }
}

TEST(Advice, DiffersByWhatIsWrong) {
  RecordProperty("contract", "E13");
  EXPECT_NE(advice_on_driver("Driver Not Loaded", "").find("modprobe"), std::string::npos);
  EXPECT_NE(advice_on_driver("Insufficient Permissions", "").find("/dev/nvidiactl"),
            std::string::npos);
  EXPECT_NE(advice_on_driver("Driver/library version mismatch", "").find("restart"),
            std::string::npos);
}

TEST(Advice, IsNotMadeUp) {
  EXPECT_EQ(advice_on_driver("Unknown Error", "x"), "");
  EXPECT_EQ(advice_on_driver("", "x"), "");
}

}  // namespace
}  // namespace gpuyard
