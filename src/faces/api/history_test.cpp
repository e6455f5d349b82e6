#include "history/history.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <boost/json.hpp>

#include "api/routes_for_tests.h"
#include "base/shares.h"
#include "device/error.h"
#include "device/fake_backend.h"
#include "protocol/history.h"

namespace gpuyard::api {
namespace {

using namespace std::chrono_literals;

class HistoryRoute : public Routes {
 protected:
  HistoryRoute() {
    telemetry_.on_fleet(fleet_.fleet());
    loop_.advance(telemetry::kTickDeadline);
    for (int second = 0; second < 60; ++second) {
      Snapshot snapshot = *telemetry_.latest();
      snapshot.taken = loop_.now();
      snapshot.wall = loop_.wall();
      for (DeviceState& device : snapshot.devices) {
        device.sample.set({Metric::power_draw, 0, loop_.now(), 300'000 + second});
        device.sample.set({Metric::fan_speed, 1, loop_.now(), 40});
      }
      history_.on_snapshot(snapshot);
      loop_.advance(1s);
    }
  }

  http::Response get(const std::string& id, NamedValues query, const std::string& accept = "") {
    http::Request request;
    request.path = "/api/gpu/devices/" + id + "/history";
    request.query = std::move(query);
    if (!accept.empty()) request.headers.push_back({"Accept", accept});
    http::Response response;
    router_.handle(std::move(request),
                   http::Reply([&](http::Response sent) { response = std::move(sent); }));
    worker_.run_all();
    return response;
  }
  protocol::History answer(const http::Response& response) {
    auto decoded = json::from_json<protocol::History>(*response.body);
    EXPECT_TRUE(decoded) << *response.body;
    return decoded ? *decoded : protocol::History{};
  }
  static std::string message(const http::Response& response) {
    const auto body = boost::json::parse(*response.body);
    return std::string(body.at_pointer("/error/message").as_string());
  }

  FakeFleet fleet_ = FakeFleet::with_healthy_gpus(2, std::int64_t{80} << 30U);
};

TEST_F(HistoryRoute, TellsWhatAReadingCannotExceed) {
  EXPECT_EQ(answer(get("1", {{"metric", "fan_speed"}})).bound, 100);
  EXPECT_EQ(answer(get("1", {{"metric", "power"}})).bound, std::nullopt)
      << "its limit is not known";
}

TEST_F(HistoryRoute, TellsEachReadingInTheUnitOfItsKey) {
  const auto response = get("1", {{"metric", "power"}});
  ASSERT_EQ(response.status, 200) << *response.body;
  const auto told = answer(response);
  EXPECT_EQ(told.metric, "power_draw_w");
  EXPECT_EQ(told.unit, "W");
  EXPECT_EQ(told.index, 1U);
  EXPECT_EQ(told.uuid, fleet_.fleet().devices[1].uuid);
  EXPECT_EQ(told.resolution, protocol::HistoryResolution::reading);
  ASSERT_EQ(told.points.size(), 60U);
  EXPECT_EQ(told.points[7].mean, 300.007);
  EXPECT_EQ(told.summary.readings, 60U);
  EXPECT_EQ(told.summary.min, 300.0);
  EXPECT_EQ(told.summary.max, 300.059);
  EXPECT_EQ(told.summary.last, 300.059);
  EXPECT_EQ(told.points[8].t_ms - told.points[7].t_ms, 1000);
}

TEST_F(HistoryRoute, AStepMakesAggregates) {
  const auto told = answer(get("0", {{"metric", "power_draw_w"}, {"step", "30s"}}));
  EXPECT_EQ(told.step_ms, 30'000);
  for (const auto& point : told.points) {
    EXPECT_LE(point.min, point.mean);
    EXPECT_LE(point.mean, point.max);
  }
}

TEST_F(HistoryRoute, AnElementHasAHistoryOfItsOwn) {
  EXPECT_EQ(answer(get("0", {{"metric", "fan_speed"}, {"element", "1"}})).points.size(), 60U);
  const auto none = answer(get("0", {{"metric", "fan_speed"}}));
  EXPECT_TRUE(none.points.empty());
  EXPECT_EQ(none.element, "0");
}

TEST_F(HistoryRoute, CsvIsAskedForByNameOrByAccept) {
  for (const auto& response : {get("0", {{"metric", "power"}, {"format", "csv"}}),
                               get("0", {{"metric", "power"}}, "text/csv")}) {
    EXPECT_EQ(response.content_type, "text/csv; charset=utf-8");
    EXPECT_EQ(response.body->find("index,uuid,metric,element,time,t_ms,min,mean,max\n0,"), 0U);
  }
  EXPECT_EQ(get("0", {{"metric", "power"}}, "application/json, text/csv;q=0.5").content_type,
            "application/json");
  EXPECT_EQ(get("0", {{"metric", "power"}, {"format", "json"}}, "text/csv").content_type,
            "application/json");
}

TEST_F(HistoryRoute, WhatCannotBeAnsweredSaysWhy) {
  EXPECT_EQ(get("0", {}).status, 400);
  const auto unknown = get("0", {{"metric", "powr_draw"}});
  EXPECT_EQ(unknown.status, 400);
  EXPECT_NE(message(unknown).find("\"power_draw\""), std::string::npos);
  EXPECT_EQ(get("0", {{"metric", "power"}, {"since", "nonsense"}}).status, 400);
  EXPECT_EQ(get("0", {{"metric", "power"}, {"since", "30d"}, {"step", "1s"}}).status, 400);
  EXPECT_EQ(get("0", {{"metric", "power"}, {"format", "xml"}}).status, 400);
  EXPECT_EQ(get("0", {{"metric", "power"}, {"element", "0"}}).status, 400);
  EXPECT_EQ(get("9", {{"metric", "power"}}).status, 404);
  EXPECT_EQ(get("GPU-nobody", {{"metric", "power"}}).status, 404);
}

TEST_F(HistoryRoute, AGpuThatIsGoneIsAskedForByItsUuid) {
  const std::string uuid = fleet_.fleet().devices[1].uuid;
  telemetry_.on_no_driver(init_failed("Driver Not Loaded"));
  loop_.run_posted();
  EXPECT_EQ(get("1", {{"metric", "power"}}).status, 503);
  const auto told = answer(get(uuid, {{"metric", "power"}}));
  EXPECT_EQ(told.points.size(), 60U);
  EXPECT_FALSE(told.index);
}

TEST_F(HistoryRoute, WhoAsksForMuchWaitsBehindHimselfAndAtLastIsRefused) {
  std::vector<std::string> answered;
  std::size_t busy = 0;
  const auto ask = [&](const std::string& party) {
    http::Request request;
    request.path = "/api/gpu/devices/0/history";
    request.query = {{"metric", "power"}};
    request.peer.party = party;
    router_.handle(std::move(request), http::Reply([&, party](const http::Response& sent) {
                     busy += sent.status == 503 ? 1 : 0;
                     if (sent.status == 200) answered.push_back(party);
                   }));
  };
  const std::size_t most = shares::kQuestions + shares::kQuestionsOfOne;
  for (std::size_t i = 0; i < most + 3; ++i) ask("uid 1000");
  ask("uid 2000");
  EXPECT_EQ(busy, 3U);
  worker_.run_all();
  EXPECT_EQ(busy, 3U);
  ASSERT_EQ(answered.size(), most + 1);
  const auto other = std::ranges::find(answered, "uid 2000") - answered.begin();
  EXPECT_LE(other, static_cast<std::ptrdiff_t>(shares::kQuestions + 1));
}

TEST_F(HistoryRoute, AStoreThatFailsIsSaidInTheAnswer) {
  store_->said = {"nothing is written to disk now: disk is full"};
  const auto told = answer(get("0", {{"metric", "power"}}));
  ASSERT_FALSE(told.notes.empty());
  EXPECT_EQ(told.notes.front(), store_->said.front());
  EXPECT_EQ(told.points.size(), 60U);
}

}  // namespace
}  // namespace gpuyard::api
