#include "faces/fleet/login_facts.h"

#include <gmock/gmock.h>

#include <unistd.h>

#include "base/scratch_directory_for_tests.h"
#include "base/spawn.h"

namespace gpuyard::fleet {
namespace {

using testing::HasSubstr;
using testing::Not;

const Result<std::string> kCredential = std::string("MUNGE:abc+/=:");

LoginFacts facts_of(std::string_view output) {
  return parse_login_facts(output, kCredential);
}

std::string munge_reason(std::string_view output) {
  const auto key = facts_of(output).munge_key;
  return key ? "known" : key.error().text();
}

TEST(LoginFacts, UserAndUidAreRead) {
  const auto facts = facts_of("Welcome!\ngpuyard-login 0 alice 1000 \ngpuyard-munge 0 \n");
  ASSERT_TRUE(facts.login);
  EXPECT_EQ(facts.login->user, "alice");
  EXPECT_EQ(facts.login->uid, 1000U);
}

TEST(LoginFacts, UidIsUnknownUnlessIdPrintsIt) {
  for (const char* const line :
       {"gpuyard-login 0 alice ", "gpuyard-login 0 alice -1 ", "gpuyard-login 0 alice 1000 x ",
        "gpuyard-login 1 alice 1000 ", "gpuyard-login alice 1000 ", "gpuyard-login 0 1000 ",
        "gpuyard-login 0 alice 99999999999 ", "gpuyard-login 124 ", "HTTP/1.1 400 Bad Request",
        ""}) {
    EXPECT_FALSE(facts_of(line).login) << line;
  }
  EXPECT_THAT(facts_of("gpuyard-login 124 ").login.error().text(),
              HasSubstr("id did not respond within 3 s"));
  EXPECT_THAT(facts_of("HTTP/1.1 400 Bad Request").login.error().text(),
              HasSubstr("another command"));
}

TEST(LoginFacts, DecodedCredentialMeansTheSameKey) {
  // Success, expired, rewound, replayed, unauthorized.
  for (const char* const status : {"0", "15", "16", "17", "18"}) {
    const auto facts =
        facts_of(std::string("gpuyard-munge ") + status + " unmunge: Error: text \n");
    ASSERT_TRUE(facts.munge_key) << status;
    EXPECT_EQ(*facts.munge_key, MungeKey::same) << status;
    EXPECT_TRUE(facts.has_munge);
  }
}

TEST(LoginFacts, InvalidCredentialMeansAnotherKey) {
  const auto facts = facts_of("gpuyard-munge 14 unmunge: Error: Invalid credential \n");
  ASSERT_TRUE(facts.munge_key);
  EXPECT_EQ(*facts.munge_key, MungeKey::different);
}

TEST(LoginFacts, OtherUnmungeStatusMeansUnknownKey) {
  EXPECT_EQ(munge_reason("gpuyard-munge 127 timeout: failed to run command 'unmunge': gone \n"),
            "munge is not installed there");
  EXPECT_FALSE(facts_of("gpuyard-munge 127 \n").has_munge);
  EXPECT_EQ(munge_reason("gpuyard-munge 124 \n"), "munged did not respond within 3 s");
  EXPECT_EQ(munge_reason("gpuyard-munge 137 \n"), "munged did not respond within 3 s");
  EXPECT_EQ(munge_reason("gpuyard-munge 6 unmunge: Error: Failed to access \"/s\" \n"),
            "unmunge: Error: Failed to access \"/s\"");
  EXPECT_EQ(munge_reason("gpuyard-munge 19 \n"), "unmunge ended with status 19");
  EXPECT_EQ(munge_reason("gpuyard-munge \x1b[31m \n"),
            "its login runs no shell; the ssh key may only run another command");
  EXPECT_THAT(munge_reason("gpuyard-munge 1 \x1b[31m" + std::string(5000, 'x') + "\n"),
              Not(HasSubstr("\x1b")));
  EXPECT_LE(munge_reason("gpuyard-munge 1 " + std::string(5000, 'x') + "\n").size(), 200U);
}

TEST(LoginFacts, KeyIsUnknownWithoutLocalCredential) {
  const Result<std::string> none =
      Error{Errc::unavailable, "munge is not installed on this machine"};
  const auto facts = parse_login_facts("gpuyard-munge 8 unmunge: Error: no credential \n", none);
  ASSERT_FALSE(facts.munge_key);
  EXPECT_EQ(facts.munge_key.error().text(), "munge is not installed on this machine");
  EXPECT_TRUE(facts.has_munge);
}

// The script is run by this machine's own sh, with programs of the test's own.
class LoginScript : public testing::Test {
 protected:
  void write_program(std::string_view name, const std::string& script) {
    directory_.write(name, "#!/bin/sh\n" + script, 0755);
  }

  LoginFacts run_script() {
    const auto output =
        run_with_timeout({.program = "/bin/sh",
                          .arguments = {"-c", login_script(kCredential)},
                          .environment = {{"PATH", directory_.path() + ":/usr/bin:/bin"}}},
                         std::chrono::seconds(20));
    EXPECT_TRUE(output);
    return facts_of(output ? *output : "");
  }

  ScratchDirectory directory_;
};

TEST_F(LoginScript, PassesTheCredentialOnStdin) {
  write_program("unmunge",
                "read -r line; [ \"$line\" = MUNGE:abc+/=: ] && [ $# = 1 ] && exit 17\n");
  const auto facts = run_script();
  ASSERT_TRUE(facts.munge_key) << facts.munge_key.error().text();
  EXPECT_EQ(*facts.munge_key, MungeKey::same);
  ASSERT_TRUE(facts.login) << facts.login.error().text();
  EXPECT_EQ(facts.login->uid, ::geteuid());
}

TEST_F(LoginScript, EndsCommandsThatHang) {
  write_program("unmunge", "exec sleep 60\n");
  write_program("id", "exec sleep 60\n");
  const auto facts = run_script();
  ASSERT_FALSE(facts.login);
  EXPECT_EQ(facts.login.error().text(), "id did not respond within 3 s");
  ASSERT_FALSE(facts.munge_key);
  EXPECT_EQ(facts.munge_key.error().text(), "munged did not respond within 3 s");
}

}  // namespace
}  // namespace gpuyard::fleet
