#include "base/result.h"

#include <memory>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

const std::vector<Errc> kAllCodes = {
    Errc::unsupported, Errc::not_found,   Errc::denied,      Errc::conflict,  Errc::invalid,
    Errc::busy,        Errc::unavailable, Errc::device_lost, Errc::timed_out, Errc::internal};

TEST(Error, EveryCodeHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (const Errc code : kAllCodes) EXPECT_TRUE(names.insert(name_of(code)).second);
}

TEST(Error, EveryCodeSurvivesTheWayThroughANumber) {
  for (const Errc code : kAllCodes) {
    EXPECT_EQ(errc_from_number(static_cast<std::uint32_t>(code)), code) << name_of(code);
  }
}

TEST(Error, ANumberThatIsNoCodeIsInternal) {
  const auto last = static_cast<std::uint32_t>(Errc::internal);
  for (const std::uint32_t number : {last + 1, 255U, UINT32_MAX}) {
    EXPECT_EQ(errc_from_number(number), Errc::internal) << number;
  }
}

TEST(Error, EveryCodeLeavesTheProgramAsAFailure) {
  for (const Errc code : kAllCodes) {
    EXPECT_GE(http_status_of(code), 400) << name_of(code);
    EXPECT_LT(http_status_of(code), 600) << name_of(code);
    EXPECT_GT(exit_code_of(code), 0) << name_of(code);
  }
}

TEST(Error, ErrcMapsToHttpStatus) {
  EXPECT_EQ(http_status_of(Errc::invalid), 400);
  EXPECT_EQ(http_status_of(Errc::denied), 403);
  EXPECT_EQ(http_status_of(Errc::not_found), 404);
  EXPECT_EQ(http_status_of(Errc::conflict), 409);
  EXPECT_EQ(http_status_of(Errc::internal), 500);
  EXPECT_EQ(http_status_of(Errc::unavailable), 503);
  EXPECT_EQ(http_status_of(Errc::timed_out), 504);
}

TEST(Error, InvalidAndUnavailableHaveDistinctExitCodes) {
  EXPECT_EQ(exit_code_of(Errc::invalid), 2);
  EXPECT_EQ(exit_code_of(Errc::unavailable), 5);
}

TEST(Error, TextOfAMessageAloneIsTheMessage) {
  EXPECT_EQ((Error{Errc::denied, "no"}).text(), "no");
}

TEST(Error, TextHasMessageCauseAndHint) {
  EXPECT_EQ(
      (Error{Errc::denied, "permission denied", "alice is not in the group g",
             "sudo usermod -aG g alice  # then log in again"})
          .text(),
      "permission denied: alice is not in the group g; try `sudo usermod -aG g alice` (then log "
      "in again)");
}

TEST(Error, TextHasEachStepInItsOrder) {
  EXPECT_EQ(
      (Error{Errc::not_found, "no lease", "", "gpuyard leases  # held\ngpuyard queue"}).text(),
      "no lease; try `gpuyard leases` (held), then `gpuyard queue`");
}

TEST(Error, CauseAndHintDoNotDistinguishErrors) {
  EXPECT_EQ((Error{Errc::denied, "no", "why", "next"}), (Error{Errc::denied, "no"}));
  EXPECT_NE((Error{Errc::denied, "no"}), (Error{Errc::conflict, "no"}));
}

TEST(Error, SaysWhereItHappenedAndKeepsItsCode) {
  const Error error = Error{Errc::denied, "Insufficient Permissions"}.in("reading power limits");
  EXPECT_EQ(error, (Error{Errc::denied, "reading power limits: Insufficient Permissions"}));
}

TEST(Result, HoldsAValueThatCannotBeCopied) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  ASSERT_TRUE(result);
  const std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 7);
}

TEST(Result, HoldsAnError) {
  const Result<int> result = Error{Errc::busy, "the queue is full"};
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Errc::busy);
}

TEST(Result, FalseValueIsStillValue) {
  const Result<bool> result = false;
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(*result);
}

TEST(Result, VoidIsOkUntilErrorAssigned) {
  Result<void> result;
  EXPECT_TRUE(result.ok());
  result = Error{Errc::internal, "no"};
  EXPECT_FALSE(result.ok());
}

}  // namespace
}  // namespace gpuyard
