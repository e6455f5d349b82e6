#include "cli/kube/object_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuyard::cli::kube {
namespace {

using testing::MatchesRegex;
using testing::SizeIs;

const SliceDevice kDevice{"n1", "gpu.nvidia.com", "n1", "gpu-0", "GPU-aaaa"};

// The digits are those of `printf 'gpu.nvidia.com\nn1\ngpu-0\nGPU-aaaa' | sha256sum`: other
// versions of the agent must find the same rule.
TEST(ObjectNames, RuleNameHasNodeAndHash) {
  EXPECT_EQ(device_rule_name("n1", kDevice), "gpuyard-n1-48175807");
}

TEST(ObjectNames, EachPartChangesRuleName) {
  const std::string name = device_rule_name("n1", kDevice);
  for (auto part :
       {&SliceDevice::driver, &SliceDevice::pool, &SliceDevice::device, &SliceDevice::uuid}) {
    SliceDevice other = kDevice;
    other.*part += "x";
    EXPECT_NE(device_rule_name("n1", other), name);
  }
  EXPECT_NE(device_rule_name("n2", kDevice), name);
}

TEST(ObjectNames, LongNodeNameIsHashed) {
  const std::string fits(236, 'n');
  EXPECT_THAT(device_rule_name(fits, kDevice), SizeIs(253));
  EXPECT_THAT(device_rule_name(fits + "n", kDevice),
              MatchesRegex("gpuyard-[0-9a-f]{32}-[0-9a-f]{8}"));
  EXPECT_EQ(node_label(std::string(63, 'n')), std::string(63, 'n'));
  EXPECT_THAT(node_label(std::string(64, 'n')), MatchesRegex("[0-9a-f]{32}"));
  EXPECT_NE(node_label(std::string(64, 'n')), node_label(std::string(65, 'n')));
}

TEST(ObjectNames, EventNameHasNodeAndNumber) {
  EXPECT_EQ(event_name("n1", 0x17a4c0ffee), "n1.17a4c0ffee");
  const std::string fits(240, 'n');
  EXPECT_THAT(event_name(fits, 0xfedcba987654), SizeIs(253));
  EXPECT_THAT(event_name(fits + "n", 0xfedcba987654), MatchesRegex("[0-9a-f]{32}.fedcba987654"));
}

TEST(ObjectNames, TaintValueIsValid) {
  EXPECT_EQ(taint_value("xid-fatal"), "xid-fatal");
  EXPECT_EQ(taint_value("_my_rule-"), "my_rule");
  EXPECT_EQ(taint_value("a b\"c"), "a-b-c");
  EXPECT_EQ(taint_value("--"), "");
  EXPECT_THAT(taint_value(std::string(70, 'x')), SizeIs(63));
}

TEST(ObjectNames, ReasonIsCamelCase) {
  EXPECT_EQ(camel_case("xid-fatal"), "XidFatal");
  EXPECT_EQ(camel_case("gpu_lost"), "GpuLost");
  EXPECT_EQ(camel_case("2nd-fan"), "Rule2ndFan");
  EXPECT_EQ(camel_case("-"), "");
}

}  // namespace
}  // namespace gpuyard::cli::kube
