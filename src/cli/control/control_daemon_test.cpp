#include "cli/control/control_daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuyard::cli {
namespace {

constexpr const char* kAddressed =
    "permission denied: changing GPUs needs the scope \"control\": user alice is not in the group "
    "gpuyard-none; try `sudo usermod -aG gpuyard-none alice` (then log in again)";

TEST(Refusal, NamesTheUserAndTheGroup) {
  const Error error{Errc::denied, "PUT /p needs more", "it is the group's",
                    "usermod -aG gpuyard-none USER  # as root"};
  EXPECT_EQ(with_group_advice(error, "alice").text(), kAddressed);
}

TEST(Refusal, FromOlderDaemonNamesTheUser) {
  const Error error{Errc::denied,
                    "it: an administrator can run `usermod -aG gpuyard-none USER`; then"};
  EXPECT_EQ(with_group_advice(error, "alice").text(), kAddressed);
}

TEST(Refusal, UidWithoutNameHasNoHint) {
  const Error error{Errc::denied, "no", "it is the group's", "usermod -aG gpuyard-none USER"};
  EXPECT_THAT(with_group_advice(error, "").text(),
              testing::MatchesRegex("permission denied.*: UID [0-9]+ has no user name, and is not "
                                    "in the group gpuyard-none"));
}

TEST(Refusal, MissingGroupHintCreatesIt) {
  const Error error{Errc::denied, "no", "it does not exist",
                    "groupadd --system gpuyard  # as root; then restart gpuyard"};
  EXPECT_EQ(
      with_group_advice(error, "alice", "reading the audit log").text(),
      "permission denied: reading the audit log needs the scope \"control\": the group gpuyard "
      "does not exist on this machine; try `sudo groupadd --system gpuyard` (then restart the "
      "daemon)");
}

TEST(Refusal, WithoutAGroupToJoinIsUnchanged) {
  for (const char* text : {"", "no", "USER", "usermod -aG gpuyard"}) {
    EXPECT_EQ(with_group_advice({Errc::denied, text}, "alice").text(), text);
  }
}

}  // namespace
}  // namespace gpuyard::cli
