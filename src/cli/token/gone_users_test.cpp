#include "cli/token/gone_users.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuyard::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

protocol::Token token(std::uint32_t uid, std::optional<bool> gone, const char* state = "good") {
  protocol::Token one;
  one.uid = uid;
  one.state = state;
  one.user_gone = gone;
  return one;
}

TEST(GoneUsers, EachIsNamedOnceWithTheCommand) {
  const protocol::Tokens tokens{
      1, {token(1000, std::nullopt), token(1234, true), token(1234, true), token(1235, true)}};
  EXPECT_THAT(gone_user_warnings(tokens),
              ElementsAre(testing::AllOf(HasSubstr("UID 1234 has 2 valid tokens but no user"),
                                         HasSubstr("`gpuyard token revoke --user 1234`")),
                          HasSubstr("UID 1235 has 1 valid token but no user")));
}

TEST(GoneUsers, EndedAndServiceTokensAreLeftOut) {
  protocol::Token service = token(0, true);
  service.uid.reset();
  const protocol::Tokens tokens{
      1, {token(1234, true, "revoked"), token(1234, true, "expired"), token(1235, false), service}};
  EXPECT_TRUE(gone_user_warnings(tokens).empty());
}

}  // namespace
}  // namespace gpuyard::cli
