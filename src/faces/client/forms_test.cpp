#include "faces/client/forms.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "faces/protocol/leases.h"
#include "faces/protocol/resources.h"

namespace gpuyard::client {
namespace {

constexpr std::string_view kWellFormed =
    R"({"uuid": "GPU-5d3e", "at": "2026-01-31T12:00:01.250Z"})";

std::size_t dropped_of(std::string_view text) {
  auto answer = boost::json::parse(text);
  const auto dropped = drop_malformed(answer);
  EXPECT_TRUE(dropped) << dropped.error().message;
  return dropped ? *dropped : 0;
}

bool is_refused(std::string_view text) {
  auto answer = boost::json::parse(text);
  return !drop_malformed(answer);
}

TEST(Forms, KeepWellFormedEntries) {
  EXPECT_EQ(
      dropped_of(std::string("[").append(kWellFormed).append(", {\"id\": \"\"}, {\"uuid\": 7}]")),
      0U);
  EXPECT_FALSE(is_refused(R"({"since": "2026-01-31T12:00:01+01:00"})"));
  EXPECT_FALSE(is_refused(R"({"since": "2026-01-31T12:00:01Z"})"));
}

TEST(Forms, DropOnlyTheMalformedEntryOfAList) {
  for (const char* wrong :
       {R"({"uuid": "GPU-\u001b[31m"})", R"({"id": "a;b"})", R"({"id": "-rf"})",
        R"({"lease": "a\nb"})", R"({"at": "yesterday"})", R"({"at": "2026-01-31T12:00:01Z\n"})",
        R"({"at": "2026-01-31T12:00:01.Z"})", R"({"gpu": {"uuid": "a b"}})"}) {
    EXPECT_EQ(dropped_of(fmt::format("{{\"all\": [{}, {}]}}", kWellFormed, wrong)), 1U) << wrong;
    EXPECT_TRUE(is_refused(wrong)) << wrong;
  }
}

TEST(Forms, NameThePathOfTheMalformedField) {
  auto answer = boost::json::parse(
      R"({"all": [{"gpu": {"uuid": "a b"}}], "lease": {"gpus": {"uuid": "GPU-\u001b"}}})");
  const auto dropped = drop_malformed(answer);
  ASSERT_FALSE(dropped);
  EXPECT_EQ(dropped.error().message, "/lease/gpus/uuid: malformed ID, UUID or time");
}

TEST(Forms, AcceptAnyValueInNewFields) {
  EXPECT_FALSE(is_refused(R"({"colour": "\u001b", "missing": {"uuid": "not known"}})"));
}

TEST(ParseReply, IsReadWithoutItsMalformedEntries) {
  const auto read = parse_reply<protocol::DeviceName>("here", R"({"id": "\u001b]0;"})");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Errc::internal);
  EXPECT_NE(read.error().message.find("/id"), std::string::npos) << read.error().message;
  const auto kept = parse_reply<std::vector<protocol::DeviceName>>(
      "here", R"([{"id": "a b"}, {"id": "3", "new": {"id": "17"}}])");
  ASSERT_TRUE(kept) << kept.error().message;
  ASSERT_EQ(kept->size(), 1U);
  EXPECT_EQ(kept->front().id, "3");
}

}  // namespace
}  // namespace gpuyard::client
