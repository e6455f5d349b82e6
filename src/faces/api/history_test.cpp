#include "core/history/history.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <boost/json.hpp>

#include "base/limits.h"
#include "faces/api/routes_for_tests.h"
#include "faces/protocol/history.h"
#include "gpu/device/error.h"
#include "gpu/device/fake_backend.h"

namespace gpuyard::api {
namespace {

using namespace std::chrono_literals;

class HistoryRoute : public Routes {
 protected:
  HistoryRoute() {
    telemetry_.on_inventory(fleet_.inventory());
    loop_.advance(telemetry::kPublishTimeout);
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
    return get_path("/api/gpu/devices/" + id + "/history", std::move(query), accept);
  }
  http::Response get_path(const std::string& path, NamedValues query,
                          const std::string& accept = "") {
    http::Request request;
    request.path = path;
    request.query = std::move(query);
    if (!accept.empty()) request.headers.push_back({"Accept", accept});
    http::Response response;
    router_.handle(std::move(request),
                   http::Reply([&](http::Response sent) { response = std::move(sent); }));
    worker_.run_all();
    return response;
  }
  template <class Record>
  static Record record(const http::Response& response) {
    auto decoded = json::from_json<Record>(*response.body);
    EXPECT_TRUE(decoded) << *response.body;
    return decoded ? *decoded : Record{};
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

TEST_F(HistoryRoute, KnownUpperBoundIsReported) {
  EXPECT_EQ(answer(get("1", {{"metric", "fan_speed"}})).bound, 100);
  EXPECT_EQ(answer(get("1", {{"metric", "power"}})).bound, std::nullopt)
      << "its limit is not known";
}

TEST_F(HistoryRoute, ReadingsUseUnitOfMetricKey) {
  const auto response = get("1", {{"metric", "power"}});
  ASSERT_EQ(response.status, 200) << *response.body;
  const auto result = answer(response);
  EXPECT_EQ(result.metric, "power_draw_w");
  EXPECT_EQ(result.unit, "W");
  EXPECT_EQ(result.index, 1U);
  EXPECT_EQ(result.uuid, fleet_.inventory().devices[1].uuid);
  EXPECT_EQ(result.resolution, protocol::HistoryResolution::reading);
  ASSERT_EQ(result.points.size(), 60U);
  EXPECT_EQ(result.points[7].mean, 300.007);
  EXPECT_EQ(result.summary.readings, 60U);
  EXPECT_EQ(result.summary.min, 300.0);
  EXPECT_EQ(result.summary.max, 300.059);
  EXPECT_EQ(result.summary.last, 300.059);
  EXPECT_EQ(result.points[8].t_ms - result.points[7].t_ms, 1000);
}

TEST_F(HistoryRoute, AnElementHasAHistoryOfItsOwn) {
  EXPECT_EQ(answer(get("0", {{"metric", "fan_speed"}, {"element", "1"}})).points.size(), 60U);
  const auto none = answer(get("0", {{"metric", "fan_speed"}}));
  EXPECT_TRUE(none.points.empty());
  EXPECT_EQ(none.element, "0");
}

TEST_F(HistoryRoute, CsvIsSelectedByNameOrAccept) {
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

TEST_F(HistoryRoute, InvalidQueryIsRefusedWithReason) {
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

TEST_F(HistoryRoute, AbsentGpuIsFoundByUuid) {
  const std::string uuid = fleet_.inventory().devices[1].uuid;
  telemetry_.on_no_driver(init_error("Driver Not Loaded"));
  loop_.run_posted();
  EXPECT_EQ(get("1", {{"metric", "power"}}).status, 503);
  const auto result = answer(get(uuid, {{"metric", "power"}}));
  EXPECT_EQ(result.points.size(), 60U);
  EXPECT_FALSE(result.index);
}

TEST_F(HistoryRoute, ExcessQueriesQueueFairlyThenGet503) {
  std::vector<std::string> answered;
  std::size_t busy = 0;
  const auto ask = [&](const std::string& group) {
    http::Request request;
    request.path = "/api/gpu/devices/0/history";
    request.query = {{"metric", "power"}};
    request.peer.quota_group = group;
    router_.handle(std::move(request), http::Reply([&, group](const http::Response& sent) {
                     busy += sent.status == 503 ? 1 : 0;
                     if (sent.status == 200) answered.push_back(group);
                   }));
  };
  const std::size_t most = limits::kMaxRunningQueries + limits::kMaxQueriesPerUser;
  for (std::size_t i = 0; i < most + 3; ++i) ask("uid 1000");
  ask("uid 2000");
  EXPECT_EQ(busy, 3U);
  worker_.run_all();
  EXPECT_EQ(busy, 3U);
  ASSERT_EQ(answered.size(), most + 1);
  const auto other = std::ranges::find(answered, "uid 2000") - answered.begin();
  EXPECT_LE(other, static_cast<std::ptrdiff_t>(limits::kMaxRunningQueries + 1));
}

TEST_F(HistoryRoute, SeveralMetricsOfSeveralGpusComeInColumns) {
  const auto response =
      get_path("/api/gpu/history", {{"metrics", "power,fan_speed"}, {"since", "60s"}});
  ASSERT_EQ(response.status, 200) << *response.body;
  const auto columns = record<protocol::HistoryColumns>(response);
  EXPECT_EQ(columns.step_ms, 1000);
  EXPECT_EQ(columns.until_ms - columns.since_ms, 60'000);
  ASSERT_EQ(columns.series.size(), 4U);
  const protocol::HistoryColumn& power = columns.series[1];
  EXPECT_EQ(power.index, 1U);
  EXPECT_EQ(power.metric, "power_draw_w");
  ASSERT_GE(power.mean.size(), 58U);
  EXPECT_EQ(power.mean.size(), power.min.size());
  EXPECT_EQ(power.mean.size(), power.max.size());
  EXPECT_EQ(power.mean[7], 300.0) << "four digits";
  EXPECT_TRUE(columns.series[2].mean.empty()) << "the first fan has no reading";
}

TEST_F(HistoryRoute, WithinAStepTheColumnsStayTheSame) {
  const NamedValues query{{"metrics", "power"}, {"since", "1h"}, {"points", "60"}};
  const auto first = get_path("/api/gpu/history", query);
  loop_.advance(1s);
  const auto second = get_path("/api/gpu/history", query);
  EXPECT_EQ(first.etag, second.etag);
  loop_.advance(60s);
  EXPECT_NE(get_path("/api/gpu/history", query).etag, first.etag);
}

TEST_F(HistoryRoute, ColumnsHaveALimit) {
  std::string many = "power";
  for (int i = 0; i < 15; ++i) many += ",power";
  const auto much =
      get_path("/api/gpu/history", {{"metrics", many}, {"since", "30d"}, {"points", "20000"}});
  EXPECT_EQ(much.status, 400);
  EXPECT_NE(message(much).find("exceed the limit of 1024 series"), std::string::npos) << *much.body;
  EXPECT_EQ(get_path("/api/gpu/history", {{"metrics", "power"}, {"points", "0"}}).status, 400);
  EXPECT_EQ(get_path("/api/gpu/history", {{"metrics", "nonsense"}}).status, 400);
  EXPECT_EQ(get_path("/api/gpu/history", {{"metrics", "power"}, {"gpus", "9"}}).status, 404);
  EXPECT_EQ(get_path("/api/gpu/history", {{"metrics", ""}}).status, 400);
  EXPECT_EQ(record<protocol::HistoryColumns>(get_path("/api/gpu/history", {})).series.size(), 8U);
}

TEST_F(HistoryRoute, APastMomentIsASnapshot) {
  const auto snapshot = record<protocol::Snapshot>(get_path("/api/gpu/snapshot", {{"at", "20s"}}));
  ASSERT_TRUE(snapshot.past);
  EXPECT_EQ(snapshot.past->resolution, protocol::PastResolution::reading);
  ASSERT_EQ(snapshot.devices.size(), 2U);
  const protocol::Device& device = snapshot.devices[1];
  EXPECT_EQ(device.condition, DeviceCondition::responsive);
  EXPECT_EQ(protocol::number_of(device.readings, Metric::power_draw), 300'040);
  EXPECT_EQ(protocol::number_of(device.readings, Metric::fan_speed, 1), 40);
  EXPECT_EQ(describe(device.missing.at("ecc_mode")), "not recorded in the history");
  EXPECT_FALSE(device.bottleneck);
  EXPECT_EQ(describe(device.missing.at("bottleneck")), "unknown: not assessed at this time");
}

TEST_F(HistoryRoute, SnapshotBeforeRetentionHasNoData) {
  const auto snapshot = record<protocol::Snapshot>(get_path("/api/gpu/snapshot", {{"at", "2h"}}));
  EXPECT_EQ(snapshot.past->resolution, protocol::PastResolution::nothing);
  EXPECT_EQ(snapshot.devices.at(0).condition, DeviceCondition::unresponsive);
  EXPECT_EQ(snapshot.devices.at(0).why, "no data for this time");
  EXPECT_FALSE(protocol::number_of(snapshot.devices.at(0).readings, Metric::power_draw));
}

TEST_F(HistoryRoute, AMomentIsPast) {
  EXPECT_EQ(get_path("/api/gpu/snapshot", {{"at", "nonsense"}}).status, 400);
  EXPECT_EQ(get_path("/api/gpu/snapshot", {{"at", "2099-01-01T00:00:00Z"}}).status, 400);
}

// A hundred moments by chance: the same values as in the metric's own history.
TEST_F(HistoryRoute, PastMomentHasHistoryValues) {
  const auto power = answer(get("0", {{"metric", "power"}}));
  std::mt19937 chance(17);  // NOLINT: the same moments in each run
  std::uniform_int_distribution<std::int64_t> within(power.points.front().t_ms,
                                                     power.points.back().t_ms);
  for (int i = 0; i < 100; ++i) {
    const std::int64_t at = within(chance);
    const auto after =
        std::ranges::find_if(power.points, [&](const auto& p) { return p.t_ms > at; });
    const std::string text = to_rfc3339(WallTime(std::chrono::milliseconds(at)));
    const auto snapshot = record<protocol::Snapshot>(get_path("/api/gpu/snapshot", {{"at", text}}));
    EXPECT_EQ(protocol::number_of(snapshot.devices.at(0).readings, Metric::power_draw),
              std::llround(std::prev(after)->mean.value() * 1000))
        << text;
  }
}

TEST_F(HistoryRoute, ProcessesOfThePastAreListed) {
  Snapshot snapshot = *telemetry_.latest();
  snapshot.taken = loop_.now();
  snapshot.wall = loop_.wall();
  snapshot.devices[0].sample.set(
      ProcessList{loop_.now(), std::vector{GpuProcess{7, ProcessKind::compute, 1024, {}}}});
  const auto no_lease = [](const DeviceId&) { return std::string(); };
  stays_.on_snapshot(snapshot, process_, no_lease);
  const auto spans = record<protocol::ProcessSpans>(get_path("/api/gpu/processes", {}));
  ASSERT_EQ(spans.processes.size(), 1U);
  EXPECT_EQ(spans.processes[0].pid, 7U);
  EXPECT_EQ(spans.processes[0].index, 0U);
  EXPECT_EQ(spans.processes[0].peak_memory_bytes, 1024);
  EXPECT_TRUE(spans.processes[0].there);
  EXPECT_TRUE(spans.complete);
  EXPECT_TRUE(record<protocol::ProcessSpans>(get_path("/api/gpu/processes", {{"gpus", "1"}}))
                  .processes.empty());
  EXPECT_EQ(get_path("/api/gpu/processes", {{"gpus", "9"}}).status, 404);
  EXPECT_EQ(get_path("/api/gpu/processes", {{"limit", "0"}}).status, 400);
}

// A minute of heat on the first GPU, then one without; the second is never assessed.
class PastBottlenecks : public HistoryRoute {
 protected:
  PastBottlenecks() {
    see(BottleneckCause::heat);
    see(BottleneckCause::none);
  }
  void see(BottleneckCause cause) {
    for (int second = 0; second < 60; ++second) {
      Snapshot snapshot = *telemetry_.latest();
      snapshot.taken = loop_.now();
      snapshot.wall = loop_.wall();
      snapshot.devices[0].bottleneck.emplace().cause = cause;
      snapshot.devices[0].bottleneck->text = "because";
      snapshot.devices[1].bottleneck.reset();
      history_.on_snapshot(snapshot);
      spells_.on_snapshot(snapshot);
      worker_.run_all();
      loop_.advance(1s);
    }
  }
  protocol::Bottlenecks get_bottlenecks(NamedValues query) {
    const auto response = get_path("/api/gpu/bottlenecks", std::move(query));
    EXPECT_EQ(response.status, 200) << *response.body;
    return record<protocol::Bottlenecks>(response);
  }
};

TEST_F(PastBottlenecks, SpansAndSharesOfKnownTimeAreReturned) {
  const auto all = get_bottlenecks({{"since", "10m"}});
  EXPECT_TRUE(all.complete);
  EXPECT_NEAR(all.seconds, 600, 0.01);
  ASSERT_EQ(all.gpus.size(), 2U);
  const protocol::GpuBottlenecks& hot = all.gpus[0];
  EXPECT_EQ(hot.index, 0U);
  ASSERT_EQ(hot.spells.size(), 2U);
  EXPECT_EQ(hot.spells[0].bottleneck.cause, BottleneckCause::none);
  EXPECT_TRUE(hot.spells[0].on);
  EXPECT_EQ(hot.spells[1].bottleneck.text, "because");
  EXPECT_FALSE(hot.spells[1].on);
  EXPECT_EQ(hot.spells[1].ended, hot.spells[0].began);
  EXPECT_EQ(hot.known_seconds, 119);
  ASSERT_EQ(hot.shares.size(), 2U);
  EXPECT_EQ(hot.shares[0].cause, BottleneckCause::heat) << "the longest first";
  EXPECT_EQ(hot.shares[0].seconds, 60);
  EXPECT_EQ(hot.shares[0].percent, 50.4);
  const protocol::GpuBottlenecks& unknown = all.gpus[1];
  EXPECT_EQ(unknown.known_seconds, 0);
  EXPECT_TRUE(unknown.shares.empty()) << "not known is not fine";
}

TEST_F(PastBottlenecks, AreCutToTheRangeAndTheLimit) {
  const auto last = get_bottlenecks({{"since", "30s"}, {"gpus", "0"}});
  ASSERT_EQ(last.gpus.size(), 1U);
  EXPECT_EQ(last.gpus[0].spells.size(), 1U);
  EXPECT_NEAR(last.gpus[0].known_seconds, 29, 0.01);
  const auto one = get_bottlenecks({{"since", "10m"}, {"limit", "1"}});
  EXPECT_FALSE(one.complete);
  EXPECT_EQ(one.gpus[0].spells.size(), 1U);
  EXPECT_EQ(one.gpus[0].known_seconds, 119) << "the shares are of all";
  EXPECT_EQ(get_path("/api/gpu/bottlenecks", {{"gpus", "9"}}).status, 404);
  EXPECT_EQ(get_path("/api/gpu/bottlenecks", {{"limit", "0"}}).status, 400);
  EXPECT_EQ(get_path("/api/gpu/bottlenecks", {{"since", "nonsense"}}).status, 400);
}

TEST_F(PastBottlenecks, UnknownCauseAddsNoCoveredTime) {
  see(BottleneckCause::not_known);
  const auto last = get_bottlenecks({{"since", "30s"}, {"gpus", "0"}});
  EXPECT_EQ(last.gpus[0].known_seconds, 0);
  EXPECT_EQ(last.gpus[0].spells.size(), 1U);
}

TEST_F(PastBottlenecks, AbsentGpuIsStillListed) {
  Snapshot snapshot = *telemetry_.latest();
  snapshot.wall = loop_.wall();
  snapshot.devices.resize(1);
  snapshot.devices[0].info.id = "GPU-of-before";
  snapshot.devices[0].bottleneck.emplace().cause = BottleneckCause::lost;
  spells_.on_snapshot(snapshot);
  const auto all = get_bottlenecks({});
  ASSERT_EQ(all.gpus.size(), 3U);
  EXPECT_EQ(all.gpus[2].uuid, "GPU-of-before");
  EXPECT_FALSE(all.gpus[2].index);
}

TEST_F(PastBottlenecks, PastMomentHasItsBottleneck) {
  const auto at = [&](const char* moment) {
    return record<protocol::Snapshot>(get_path("/api/gpu/snapshot", {{"at", moment}}));
  };
  EXPECT_EQ(at("90s").devices.at(0).bottleneck.value().cause, BottleneckCause::heat);
  EXPECT_EQ(at("20s").devices.at(0).bottleneck.value().cause, BottleneckCause::none);
  EXPECT_FALSE(at("20s").devices.at(0).missing.contains("bottleneck"));
  for (const char* unknown : {"150s", "2h"}) {
    EXPECT_FALSE(at(unknown).devices.at(0).bottleneck) << unknown;
    EXPECT_TRUE(at(unknown).devices.at(0).missing.contains("bottleneck")) << unknown;
  }
  EXPECT_FALSE(at("20s").devices.at(1).bottleneck);
}

TEST_F(HistoryRoute, RootServesTextTableOrHtmlPage) {
  context_.pages.device_table = [](const protocol::Snapshot& seen) {
    return std::to_string(seen.devices.size()) + " GPUs <b>\n";
  };
  const auto text = get_path("/", {}, "*/*");
  EXPECT_EQ(text.content_type, "text/plain; charset=utf-8");
  EXPECT_EQ(*text.body, "2 GPUs <b>\n");
  const auto page = get_path("/", {}, "text/html,application/xhtml+xml,*/*;q=0.8");
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  for (const char* row : {R"(<a href="/gpu/0">0</a>)", R"(<a href="/gpu/1">1</a>)"}) {
    EXPECT_NE(page.body->find(row), std::string::npos) << *page.body;
  }
  EXPECT_EQ(page.body->find(R"(<a href="/gpu/2">)"), std::string::npos);
}

}  // namespace
}  // namespace gpuyard::api
