#include "cli/smi/smi_words.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/scratch_directory_for_tests.h"

namespace gpuyard::cli {
namespace {

using Strings = std::vector<std::string>;

TEST(SmiWords, OptionsOfNvidiaSmiAreTranslated) {
  EXPECT_EQ(*smi_words({"-lms", "500", "--query-gpu=name", "--format=csv"}),
            (Strings{"--loop-ms", "500", "--query-gpu=name", "--format=csv"}));
  EXPECT_EQ(*smi_words({"-lms=500"}), (Strings{"--loop-ms", "500"}));
  EXPECT_EQ(*smi_words({"-i=0", "-f=x=y"}), (Strings{"-i", "0", "-f", "x=y"}));
  EXPECT_EQ(*smi_words({"-a", "-i", "0"}), (Strings{"-q", "-i", "0"}));
  EXPECT_EQ(*smi_words({"-l"}), (Strings{"-l", "5"}));
  EXPECT_EQ(*smi_words({"-l", "-i", "0"}), (Strings{"-l", "5", "-i", "0"}));
  EXPECT_EQ(*smi_words({"-l", "2"}), (Strings{"-l", "2"}));
}

TEST(SmiWords, OptionThatChangesGpuIsRefusedWithReplacement) {
  for (const auto& [words, command] : {
           std::pair{Strings{"-pl", "300"}, "gpuyard power 0 300"},
           std::pair{Strings{"-i", "1", "--power-limit=300"}, "gpuyard power 0 300"},
           std::pair{Strings{"-pm", "1"}, "gpuyard persistence 0 on"},
           std::pair{Strings{"-e", "0"}, "gpuyard ecc 0 on"},
           std::pair{Strings{"-c", "3"}, "gpuyard compute-mode 0 exclusive_process"},
           std::pair{Strings{"--gpu-reset", "-i", "0"}, "gpuyard reset 0"},
           std::pair{Strings{"-lgc", "1200,1500"}, "gpuyard clocks 0 --gpu-clocks 1200,1500"},
           std::pair{Strings{"-rgc"}, "gpuyard clocks 0 --restore gpu"},
           std::pair{Strings{"-ac", "2619,1980"}, "gpuyard clocks 0 --gpu-clocks 1200,1500"},
           std::pair{Strings{"-mig", "1"}, ""},
       }) {
    const auto refused = smi_words(words);
    ASSERT_FALSE(refused) << words.front();
    EXPECT_EQ(refused.error().code, Errc::unsupported) << words.front();
    EXPECT_NE(refused.error().message.find("changes a GPU"), std::string::npos);
    EXPECT_EQ(refused.error().hint, command) << words.front();
  }
}

TEST(SmiWords, UnsupportedCommandIsRefusedWithReplacement) {
  EXPECT_EQ(smi_words({"dmon", "-s", "p"}).error().hint, "gpuyard watch");
  EXPECT_EQ(smi_words({"pmon"}).error().hint, "gpuyard processes");
  EXPECT_EQ(smi_words({"--nvidia-exit-codes", "--local", "pmon"}).error().hint,
            "gpuyard processes");
  EXPECT_EQ(smi_words({"topo", "-m"}).error().hint, "gpuyard devices 0");
  EXPECT_EQ(smi_words({"mig", "-lgi"}).error().code, Errc::unsupported);
  EXPECT_EQ(smi_words({"--query-supported-clocks=gr", "--format=csv"}).error().hint,
            "gpuyard clocks");
  EXPECT_TRUE(smi_words({"-f", "topo"})) << "a file of that name";
}

TEST(NvidiaSmi, IsRecognisedByBaseName) {
  EXPECT_TRUE(is_nvidia_smi("nvidia-smi"));
  EXPECT_TRUE(is_nvidia_smi("/world/nvidia-smi"));
  EXPECT_FALSE(is_nvidia_smi("/nvidia-smi/gpuyard"));
  EXPECT_FALSE(is_nvidia_smi("gpuyard"));
  EXPECT_FALSE(is_nvidia_smi(""));
}

// A link to the program in a directory, with PATH and the world of the environment kept.
class LinkedSmi : public testing::Test {
 protected:
  LinkedSmi() {
    ::unsetenv("GPUYARD_SIM_WORLD");
    std::filesystem::create_symlink("/proc/self/exe", directory_.in("nvidia-smi"));
  }
  ~LinkedSmi() override {
    ::setenv("PATH", path_.c_str(), 1);
    ::unsetenv("GPUYARD_SIM_WORLD");
    if (!world_.empty()) ::setenv("GPUYARD_SIM_WORLD", world_.c_str(), 1);
  }
  static std::string world() {
    const char* const named = std::getenv("GPUYARD_SIM_WORLD");
    return named != nullptr ? named : "";
  }

  const ScratchDirectory directory_;
  const std::string path_ = std::getenv("PATH");
  const std::string world_ = world();
};

TEST_F(LinkedSmi, LinkInWorldSelectsThatWorld) {
  directory_.write("state", "");
  const Strings simulated = {"smi", "--nvidia-exit-codes", "--local", "-L"};
  EXPECT_EQ(words_as_nvidia_smi(directory_.in("nvidia-smi"), {"-L"}), simulated);
  EXPECT_EQ(world(), directory_.in("").substr(0, directory_.in("").size() - 1));
  ::unsetenv("GPUYARD_SIM_WORLD");
  ::setenv("PATH", (directory_.in("") + ":/usr/bin").c_str(), 1);
  EXPECT_EQ(words_as_nvidia_smi("nvidia-smi", {"-L"}), simulated) << "found in PATH";
  ::setenv("GPUYARD_SIM_WORLD", "/another", 1);
  EXPECT_EQ(words_as_nvidia_smi(directory_.in("nvidia-smi"), {"-L"}), simulated);
  EXPECT_EQ(world(), "/another") << "a named world wins";
}

TEST_F(LinkedSmi, LinkBesideLibrarySelectsDefaultWorld) {
  directory_.write("libnvidia-ml.so.1", "");
  const auto words = words_as_nvidia_smi(directory_.in("nvidia-smi"), {});
  EXPECT_EQ(words.back(), "--local");
  EXPECT_NE(world(), "");
}

TEST_F(LinkedSmi, OtherLinkSelectsNoWorld) {
  EXPECT_EQ(words_as_nvidia_smi(directory_.in("nvidia-smi"), {"-q"}),
            (Strings{"smi", "--nvidia-exit-codes", "-q"}));
  EXPECT_EQ(world(), "");
}

}  // namespace
}  // namespace gpuyard::cli
