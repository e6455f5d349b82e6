#include "cli/control/control_request.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

namespace gpuyard::cli {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using ControlSubject = ControlVerb::Subject;

ControlVerb verb(ControlSubject subject, const std::string& gpus = "0",
                 const std::string& value = "") {
  ControlVerb made;
  made.subject = subject;
  made.gpus = gpus;
  made.value = value;
  return made;
}

// Returns the requests, or the error that says why there are none.
std::vector<std::string> asked(const ControlVerb& verb) {
  const auto requests = requests_of(verb);
  if (!requests) {
    EXPECT_EQ(requests.error().code, Errc::invalid);
    return {requests.error().text()};
  }
  std::vector<std::string> names;
  for (const ControlRequest& request : *requests) names.push_back(request.what);
  return names;
}

TEST(ControlRequests, MissingValueMakesNoRequest) {
  for (const ControlSubject subject :
       {ControlSubject::power, ControlSubject::clocks, ControlSubject::persistence,
        ControlSubject::compute_mode, ControlSubject::ecc}) {
    EXPECT_THAT(asked(verb(subject)), IsEmpty());
    EXPECT_THAT(asked(verb(subject, "")), IsEmpty());
  }
}

TEST(ControlRequests, AValueIsOneRequest) {
  EXPECT_THAT(asked(verb(ControlSubject::power, "0,1", "300W")),
              testing::ElementsAre("power limit"));
  EXPECT_THAT(asked(verb(ControlSubject::ecc, "all", "off")), testing::ElementsAre("ECC mode"));
  EXPECT_THAT(asked(verb(ControlSubject::compute_mode, "0", "Exclusive-Process")),
              testing::ElementsAre("compute mode"));
}

TEST(ControlRequests, ClocksOfBothKindsAreTwo) {
  ControlVerb clocks = verb(ControlSubject::clocks);
  clocks.gpu_clocks = "1200,1500";
  clocks.memory_clocks = "2619";
  EXPECT_THAT(asked(clocks), testing::ElementsAre("GPU clocks", "memory clocks"));
  clocks.atomic = true;
  EXPECT_THAT(asked(clocks), testing::ElementsAre(HasSubstr("with two commands")));
  ControlVerb restored = verb(ControlSubject::clocks);
  restored.restored_clocks = "all";
  EXPECT_THAT(asked(restored), testing::ElementsAre("GPU clocks", "memory clocks"));
  restored.restored_clocks = "memory";
  EXPECT_THAT(asked(restored), testing::ElementsAre("memory clocks"));
}

TEST(ControlRequests, AChangeNamesItsGpus) {
  EXPECT_THAT(asked(verb(ControlSubject::restore, "")),
              testing::ElementsAre(HasSubstr("restore needs GPU,... or --all")));
  ControlVerb clocks = verb(ControlSubject::clocks, "");
  clocks.gpu_clocks = "1200";
  EXPECT_THAT(asked(clocks), testing::ElementsAre(HasSubstr("clocks needs GPU,...")));
}

TEST(ControlRequests, AValueAloneIsNoGpu) {
  EXPECT_THAT(asked(verb(ControlSubject::power, "300W")),
              testing::ElementsAre(HasSubstr("gpuyard power all 300W")));
  EXPECT_THAT(asked(verb(ControlSubject::persistence, "on")),
              testing::ElementsAre(HasSubstr("gpuyard persistence all on")));
}

// Without a value the verb only shows the setting, so there is nothing to confirm.
TEST(ControlRequests, ChangeFlagWithoutValueIsUsageError) {
  for (const auto flag : {&ControlVerb::yes, &ControlVerb::atomic, &ControlVerb::force,
                          &ControlVerb::dry_run, &ControlVerb::detach}) {
    ControlVerb power = verb(ControlSubject::power);
    power.*flag = true;
    EXPECT_THAT(asked(power), testing::ElementsAre(HasSubstr("gpuyard power --help")));
  }
}

TEST(ControlRequests, InvalidValueNamesExpectedForm) {
  EXPECT_THAT(asked(verb(ControlSubject::power, "0", "much")),
              testing::ElementsAre(HasSubstr("such as 300, 300W or 287.5")));
  EXPECT_THAT(asked(verb(ControlSubject::persistence, "0", "yes")),
              testing::ElementsAre(HasSubstr("on|off: expected on or off")));
  EXPECT_THAT(
      asked(verb(ControlSubject::compute_mode, "0", "exclusive_thread")),
      testing::ElementsAre(HasSubstr("MODE: expected default, prohibited or exclusive_process")));
  ControlVerb power = verb(ControlSubject::power, "0", "300");
  power.lifetime = "soon";
  EXPECT_THAT(asked(power), testing::ElementsAre(HasSubstr("--for: expected a duration such as")));
  ControlVerb clocks = verb(ControlSubject::clocks);
  clocks.memory_clocks = "2,1";
  EXPECT_THAT(asked(clocks), testing::ElementsAre("--memory-clocks: MIN is above MAX in 2,1"));
}

}  // namespace

namespace {

TEST(Watts, UnitAndDecimalPointAreAccepted) {
  for (const char* text : {"300", "300W", "300w", "300 W", "300.0", "3e2"}) {
    const auto watts = parse_watts(text);
    ASSERT_TRUE(watts.ok()) << text;
    EXPECT_EQ(*watts, 300'000) << text;
  }
  EXPECT_EQ(*parse_watts("287.5"), 287'500);
  EXPECT_EQ(*parse_watts("0.0004W") + *parse_watts("0.0006W"), 1) << "to the nearest milliwatt";
}

TEST(Watts, InvalidTextIsRefusedWithExample) {
  for (const char* text : {"", "W", "0", "-300", "300mW", "300 kW", "300,5", "300W W", "nan", "inf",
                           "1e7", "3 0 0", "+300"}) {
    const auto watts = parse_watts(text);
    ASSERT_FALSE(watts.ok()) << text;
    EXPECT_EQ(watts.error().code, Errc::invalid);
    EXPECT_NE(watts.error().message.find("such as 300, 300W or 287.5"), std::string::npos);
  }
}

TEST(Clocks, OneClockMeansLowestAndHighest) {
  EXPECT_EQ(*parse_clocks("1200,1500"), (SettingValue{1200, 1500}));
  EXPECT_EQ(*parse_clocks("1200 MHz, 1500mhz"), (SettingValue{1200, 1500}));
  EXPECT_EQ(*parse_clocks("1400"), (SettingValue{1400, 1400}));
}

TEST(Clocks, TheLowestIsNotAboveTheHighest) {
  const auto clocks = parse_clocks("1500,1200");
  ASSERT_FALSE(clocks.ok());
  EXPECT_EQ(clocks.error().message, "MIN is above MAX in 1500,1200");
}

TEST(Clocks, InvalidTextIsRefusedWithExample) {
  for (const char* text : {"", ",", "1200,", ",1500", "1,2,3", "1200-1500", "1.2", "-1,5", "0",
                           "99999999999999999999", "1200GHz"}) {
    const auto clocks = parse_clocks(text);
    ASSERT_FALSE(clocks.ok()) << text;
    EXPECT_EQ(clocks.error().code, Errc::invalid);
    EXPECT_NE(clocks.error().message.find("such as 1200,1500"), std::string::npos) << text;
  }
}

TEST(OnOff, IsOneOfTheTwo) {
  EXPECT_TRUE(*parse_on_off("on"));
  EXPECT_FALSE(*parse_on_off("OFF"));
  for (const char* text : {"", "1", "true", "onn"}) EXPECT_FALSE(parse_on_off(text).ok()) << text;
}

}  // namespace
}  // namespace gpuyard::cli
