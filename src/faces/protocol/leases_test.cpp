#include "faces/protocol/leases.h"

#include <csignal>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_reader.h"

namespace gpuyard::protocol {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

gpuyard::Snapshot two_gpus() {
  gpuyard::Snapshot snapshot;
  snapshot.driver.initialised = true;
  snapshot.devices.resize(2);
  snapshot.devices[0].info = {"GPU-b", 0, "GPU-b", "0000:11:00.0", "H100", {}};
  snapshot.devices[1].info = {"GPU-a", 1, "GPU-a", "0000:14:00.0", "H100", {}};
  return snapshot;
}

Result<lease::LeaseSpec> lease_spec(const std::string& text) {
  auto body = json::from_json<LeaseRequest>(text);
  if (!body) return std::move(body).error();
  return lease_spec_of(*body, two_gpus());
}
Error problem(const std::string& text) {
  const auto given = lease_spec(text);
  return given ? Error{Errc::internal, "no problem"} : given.error();
}

TEST(LeaseBody, EmptyBodyRequestsOneGpu) {
  const auto given = lease_spec("{}");
  ASSERT_TRUE(given) << given.error().message;
  EXPECT_EQ(*given, lease::LeaseSpec{});
  EXPECT_EQ(answer_timeout_of({}), seconds(30));
}

TEST(LeaseBody, EveryFieldIsTakenOver) {
  const auto given = lease_spec(R"({"gpus":2,"min_free_bytes":1024,"model":"h100","max_time_s":1.5,
    "wait_s":0,"binding":"detached","ttl_s":60,"note":"train"})");
  ASSERT_TRUE(given) << given.error().message;
  EXPECT_EQ(given->gpus, 2U);
  EXPECT_EQ(given->min_free_bytes, 1024);
  EXPECT_EQ(given->model, "h100");
  EXPECT_EQ(given->max_hold_time, std::chrono::milliseconds(1500));
  EXPECT_EQ(given->wait_timeout, Duration::zero());
  EXPECT_EQ(given->binding, lease::Binding::detached);
  EXPECT_EQ(given->ttl, seconds(60));
  EXPECT_EQ(given->note, "train");
}

TEST(LeaseBody, EquivalentGpuNamesMakeEqualClaims) {
  const auto one = lease_spec(R"({"among":[0,"GPU-a"]})");
  const auto other = lease_spec(R"({"among":["0000:14:00.0","0","GPU-b"]})");
  ASSERT_TRUE(one && other);
  EXPECT_EQ(*one, *other);
  EXPECT_THAT(one->allowed_gpus, testing::ElementsAre("GPU-a", "GPU-b"));
}

// When the claim was made, index 1 was another GPU's, which has been lost since.
TEST(LeaseBody, RepeatedClaimKeepsOriginalGpus) {
  auto known = lease_spec(R"({"among":[0,1]})");
  ASSERT_TRUE(known);
  known->allowed_gpus = {"GPU-a", "GPU-lost"};
  for (const auto& names :
       {std::vector{GpuName{"0"}, GpuName{"1"}}, std::vector{GpuName{"0"}, GpuName{"7"}}}) {
    LeaseRequest again;
    again.among = names;
    EXPECT_EQ(*lease_spec_of(again, two_gpus(), &*known), *known);
  }
  EXPECT_NE(*lease_spec_of({}, two_gpus(), &*known), *known) << "which names none";
}

TEST(LeaseBody, AGpuThatIsNotThereIsNotFound) {
  EXPECT_EQ(problem(R"({"among":[2]})").code, Errc::not_found);
  EXPECT_EQ(problem(R"({"among":["GPU-c"]})").code, Errc::not_found);
  gpuyard::Snapshot none;
  none.driver.why = "Driver Not Loaded";
  LeaseRequest body;
  body.among = std::vector{GpuName{"0"}};
  EXPECT_EQ(lease_spec_of(body, none).error(), (Error{Errc::unavailable, "Driver Not Loaded"}));
}

TEST(LeaseBody, InvalidFieldIsNamedInError) {
  for (const auto& [text, name] : {
           std::pair(R"({"gpus":0})", "/gpus: expected 1 to 256; got 0"),
           std::pair(R"({"gpus":257})", "/gpus"),
           std::pair(R"({"gpus":-9223372036854775808})", "/gpus"),
           std::pair(R"({"gpus":1.5})", "/gpus"),
           std::pair(R"({"among":[]})", "/among: expected 1 to 256 entries; got 0"),
           std::pair(R"({"among":[true]})", "/among/0"),
           std::pair(R"({"max_time_s":1e300})", "/max_time_s"),
           std::pair(R"({"max_time_s":-1})", "/max_time_s"),
           std::pair(R"({"wait_s":-0.001})", "/wait_s"),
           std::pair(R"({"wait_s":1e999})", "/wait_s"),
           std::pair(R"({"binding":"for_ever"})", "/binding"),
           std::pair(R"({"binding":"detached"})", "/ttl_s: required for a detached lease"),
           std::pair(R"({"ttl_s":60})", "/ttl_s: only allowed for a detached lease"),
           std::pair(R"({"binding":"detached","ttl_s":1e18})", "/ttl_s"),
           std::pair(R"({"binding":"detached","ttl_s":1})", "10"),
           std::pair(R"({"id":"a b"})", "/id"),
           std::pair(R"({"id":""})", "/id"),
           std::pair(R"({"min_free_bytes":-1})",
                     "/min_free_bytes: expected 0 to 9007199254740991; got -1"),
           std::pair(R"({"gpu":1})", "/gpu: unknown field"),
       }) {
    const Error error = problem(text);
    EXPECT_EQ(error.code, Errc::invalid) << text;
    EXPECT_THAT(error.message, HasSubstr(name)) << text;
  }
}

TEST(LeaseBody, TextsHaveLimits) {
  const auto with = [](const char* field, std::size_t length) {
    return std::string("{\"") + field + "\":\"" + std::string(length, 'x') + "\"}";
  };
  EXPECT_TRUE(lease_spec(with("note", 200)));
  EXPECT_EQ(problem(with("note", 201)).message, "/note: expected at most 200 bytes; got 201");
  EXPECT_TRUE(lease_spec(with("model", 64)));
  EXPECT_EQ(problem(with("model", 65)).message, "/model: expected at most 64 bytes; got 65");
  EXPECT_TRUE(lease_spec(with("id", 64)));
  EXPECT_THAT(problem(with("id", 65)).message, HasSubstr("/id"));
}

TEST(LeaseBody, AnAnswerMayTakeAMinute) {
  LeaseRequest body;
  for (const double length : {0.0, 60.0}) {
    body.answer_within_s = length;
    EXPECT_EQ(answer_timeout_of(body), seconds(static_cast<int>(length)));
  }
  EXPECT_EQ(problem(R"({"answer_within_s":60.1})").message,
            "/answer_within_s: expected 0 to 60; got 60.1");
}

TEST(LeaseSignals, HaveNames) {
  EXPECT_EQ(*signal_of("TERM"), SIGTERM);
  EXPECT_EQ(*signal_of("KILL"), SIGKILL);
  for (const char* wrong : {"term", "SIGTERM", "9", "STOP", ""}) {
    EXPECT_EQ(signal_of(wrong).error().code, Errc::invalid) << wrong;
  }
}

TEST(LeaseRenewal, IsAtMostAWeek) {
  EXPECT_TRUE(json::from_json<RenewRequest>(R"({"ttl_s":604800})"));
  for (const char* const wrong : {"-1", "9.9", "604800.1", "1e300"}) {
    const auto body = json::from_json<RenewRequest>(fmt::format(R"({{"ttl_s":{}}})", wrong));
    ASSERT_FALSE(body) << wrong;
    EXPECT_THAT(body.error().message, testing::StartsWith("/ttl_s: expected 10 to 604800; got "));
  }
}

}  // namespace
}  // namespace gpuyard::protocol
