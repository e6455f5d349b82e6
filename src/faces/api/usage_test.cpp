// The usage route as its clients see it. What is counted is the lease room's own test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <boost/json.hpp>

#include "api/caller_for_tests.h"
#include "api/router.h"
#include "base/manual_loop.h"
#include "lease/use_archive_for_tests.h"
#include "protocol/usage.h"
#include "telemetry/reader_for_tests.h"

namespace gpuyard::api {
namespace {

using lease::UseAnswer;
using lease::UseBy;
using lease::UseQuestion;
using ::testing::HasSubstr;

class NoReads final : public lease::UseReads {
  void fresh(std::function<void(const lease::UseReadings&)>) override {}
};

class UsageRoute : public ::testing::Test {
 protected:
  UsageRoute() {
    context_.loop = &loop_;
    context_.use = &book_;
    UseAnswer answer;
    answer.sums = {{"1000", 1000, 7200, 7200, 720'000'000, 0, 50.0, 1, 2}};
    archive_.answer = answer;
  }
  http::Response get(std::vector<std::pair<std::string, std::string>> query = {},
                     const std::string& accept = "") {
    http::Request request;
    request.method = http::Method::get;
    request.path = "/api/gpu/usage";
    request.query = std::move(query);
    if (!accept.empty()) request.headers.push_back({"Accept", accept});
    http::Response answer;
    router_.handle(std::move(request),
                   http::Reply([&](http::Response sent) { answer = std::move(sent); }));
    loop_.run_posted();
    return answer;
  }
  lease::Day days_ago(int days) {
    return std::chrono::floor<std::chrono::days>(loop_.wall()) - std::chrono::days(days);
  }

  ManualLoop loop_;
  telemetry::NoReader reader_;
  telemetry::Telemetry telemetry_{loop_, reader_};
  lease::FakeUseArchive archive_{loop_};
  NoReads reads_;
  lease::UseBook book_{loop_, reads_, archive_};
  EventHub hub_{"e", telemetry_.latest()};
  Context context_{telemetry_, hub_, "1.2.3", "gpuyard"};
  Router router_{context_, kDaemon};
};

TEST_F(UsageRoute, IsByUserOfTheLastWeekUnlessAskedOtherwise) {
  const auto answer = get();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(archive_.asked, (UseQuestion{UseBy::user, days_ago(7), false}));
  const auto body = boost::json::parse(*answer.body);
  EXPECT_EQ(body.at("by"), "user");
  EXPECT_EQ(body.at_pointer("/rows/0/key"), "1000");
  EXPECT_EQ(body.at_pointer("/rows/0/gpu_hours").to_number<double>(), 2);
  EXPECT_EQ(body.at_pointer("/rows/0/energy_kwh").to_number<double>(), 0.2);
  EXPECT_TRUE(body.at_pointer("/unleased/energy_kwh").is_null());
  EXPECT_EQ(get({{"by", "gpu"}, {"since_s", "0"}}).status, 200);
  EXPECT_EQ(archive_.asked, (UseQuestion{UseBy::gpu, days_ago(0), false}));
  EXPECT_EQ(get({{"by", "day"}, {"since_s", "34560000"}}).status, 200);
  EXPECT_EQ(archive_.asked, (UseQuestion{UseBy::day, days_ago(400), false}));
}

TEST_F(UsageRoute, WhatMakesNoSenseIsRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"by", "colour"},   {"since_s", "-1"}, {"since_s", "34560001"},
      {"since_s", "nan"}, {"format", "xml"}, {"until", "1"}};
  for (const auto& one : wrong) {
    const auto answer = get({one});
    EXPECT_EQ(answer.status, 400) << one.first;
    EXPECT_THAT(*answer.body, HasSubstr(one.first));
  }
  EXPECT_FALSE(archive_.asked);
}

TEST_F(UsageRoute, UsersHaveTheirNamesOnceTheyAreKnown) {
  std::function<void()> learned;
  bool known = false;
  context_.user_name = [&](std::uint32_t) {
    return known ? std::optional<std::string>("alice") : std::nullopt;
  };
  context_.learn_users = [&](const std::vector<std::uint32_t>& uids,
                             const std::function<void()>& done) {
    EXPECT_EQ(uids, std::vector<std::uint32_t>{1000});
    known = true;
    done();
  };
  EXPECT_THAT(*get().body, HasSubstr(R"("key":"alice","uid":1000)"));
  known = false;
  EXPECT_THAT(*get({{"by", "gpu"}}).body, HasSubstr(R"("key":"1000")"));
}

TEST_F(UsageRoute, IsCsvForWhoWantsIt) {
  for (const auto& answer : {get({{"format", "csv"}}), get({}, "text/csv")}) {
    EXPECT_EQ(answer.content_type, "text/csv; charset=utf-8");
    EXPECT_EQ(*answer.body, std::string(protocol::kUsageCsvHeader) +
                                "1000,1000,2,0.2,false,50,1,2,0\n,,0,,false,,,0,0\n");
  }
}

TEST_F(UsageRoute, SaysWhatBecameOfTheBooks) {
  archive_.said = {"usage.db was corrupt, and began anew"};
  EXPECT_THAT(*get().body, HasSubstr(R"("notes":["usage.db was corrupt, and began anew"])"));
}

TEST_F(UsageRoute, SaysThatTheBooksCannotBeRead) {
  archive_.answer = Error{Errc::unavailable, "usage.db: disk full"};
  const auto answer = get();
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(*answer.body, HasSubstr("disk full"));
}

}  // namespace
}  // namespace gpuyard::api
