#include "faces/api/event_hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_reader.h"
#include "faces/api/bottleneck_publisher.h"

namespace gpuyard::api {
namespace {

using protocol::EventsRequest;
using protocol::SampleDetail;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class EventHubTest : public testing::Test {
 protected:
  static std::shared_ptr<const Snapshot> snapshot(std::uint64_t generation) {
    auto made = std::make_shared<Snapshot>();
    made->generation = generation;
    made->driver.initialised = true;
    for (std::uint32_t index = 0; index < 2; ++index) {
      DeviceState device;
      device.info.index = index;
      device.info.id = device.info.uuid = "GPU-" + std::to_string(index);
      device.info.pci_address = "0000:0" + std::to_string(index + 1) + ":00.0";
      made->devices.push_back(device);
    }
    return made;
  }
  // Requests events only; their data identifies them.
  static EventsRequest events_since(const std::string& id) {
    EventsRequest request;
    request.samples = SampleDetail::none;
    request.last_event_id = id;
    return request;
  }
  static EventsRequest all(SampleDetail samples) {
    EventsRequest request;
    request.samples = samples;
    return request;
  }
  void publish(int count) {
    for (int i = 0; i < count; ++i) hub_.publish("device", std::to_string(++published_));
  }
  // Returns the pending events of the listener, one string each.
  static std::vector<std::string> take(http::ResponseStream& stream) {
    std::vector<std::string> taken;
    for (auto chunk = stream.next(); chunk; chunk = stream.next()) taken.emplace_back(chunk.text());
    return taken;
  }
  static std::string nth(int number) {
    const std::string text = std::to_string(number);
    return "id: e-" + text + "\nevent: device\ndata: " + text + "\n\n";
  }

  EventHub hub_{"e", snapshot(1)};
  int published_ = 0;
};

TEST_F(EventHubTest, NewListenerGetsResyncWithSnapshot) {
  publish(3);
  const auto stream = hub_.open_stream(all(SampleDetail::none));
  const auto taken = take(*stream);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_THAT(taken[0],
              StartsWith("id: e-3\nevent: resync\n"
                         "data: {\"reason\":\"new_listener\",\"snapshot\":{\"schema\":1"));
  EXPECT_THAT(take(*stream), IsEmpty());
}

TEST_F(EventHubTest, EachEventIsSentOnceInOrder) {
  const auto stream = hub_.open_stream(all(SampleDetail::none));
  take(*stream);
  publish(2);
  EXPECT_THAT(take(*stream), ElementsAre(nth(1), nth(2)));
  publish(1);
  EXPECT_THAT(take(*stream), ElementsAre(nth(3)));
}

TEST_F(EventHubTest, ListenerContinuesAfterLastSeenEvent) {
  publish(4);
  EXPECT_THAT(take(*hub_.open_stream(events_since("e-2"))), ElementsAre(nth(3), nth(4)));
  EXPECT_THAT(take(*hub_.open_stream(events_since("e-4"))), IsEmpty());
  EXPECT_THAT(take(*hub_.open_stream(events_since("e-0"))),
              ElementsAre(nth(1), nth(2), nth(3), nth(4)));
}

TEST_F(EventHubTest, LastEventIdOverridesSinceParameter) {
  publish(4);
  EventsRequest request;
  request.samples = SampleDetail::none;
  request.since = "e-3";
  EXPECT_THAT(take(*hub_.open_stream(request)), ElementsAre(nth(4)));
  request.last_event_id = "e-4";  // a browser keeps the address when it comes back
  EXPECT_THAT(take(*hub_.open_stream(request)), IsEmpty());
}

TEST_F(EventHubTest, SinceOldestStartsAtOldestKeptEvent) {
  publish(EventHub::kMaxEvents + 2);
  EventsRequest request = all(SampleDetail::none);
  request.since = "oldest";
  const auto taken = take(*hub_.open_stream(request));
  ASSERT_EQ(taken.size(), EventHub::kMaxEvents);
  EXPECT_EQ(taken[0], nth(3));
}

TEST_F(EventHubTest, FloodOfNotesKeepsStopEvents) {
  publish(1);
  hub_.publish("device", "79", "GPU-1", EventSeverity::stop);
  hub_.publish("device", "95", "GPU-0", EventSeverity::stop);
  published_ = 3;
  publish(EventHub::kMaxEvents + 2);
  EventsRequest request = all(SampleDetail::none);
  request.since = "oldest";
  const auto stop = [](int id, int xid) {
    return "id: e-" + std::to_string(id) + "\nevent: device\ndata: " + std::to_string(xid) + "\n\n";
  };
  auto taken = take(*hub_.open_stream(request));
  ASSERT_EQ(taken.size(), EventHub::kMaxEvents + 2);
  EXPECT_EQ(taken[0], stop(2, 79));
  EXPECT_EQ(taken[1], stop(3, 95));
  EXPECT_EQ(taken[2], nth(6));
  request.gpus = "1";
  taken = take(*hub_.open_stream(request));
  EXPECT_EQ(taken[0], stop(2, 79));
  EXPECT_EQ(taken[1], nth(6)) << "an event about no GPU is for everybody";
}

TEST_F(EventHubTest, ExcessStopEventsEvictOldest) {
  for (std::size_t i = 0; i < EventHub::kMaxStopEvents + 5; ++i) {
    hub_.publish("device", "79", "GPU-1", EventSeverity::stop);
  }
  published_ = static_cast<int>(EventHub::kMaxStopEvents + 5);
  publish(EventHub::kMaxEvents);
  EventsRequest request = all(SampleDetail::none);
  request.since = "oldest";
  const auto taken = take(*hub_.open_stream(request));
  ASSERT_EQ(taken.size(), EventHub::kMaxEvents + EventHub::kMaxStopEvents);
  EXPECT_THAT(taken[0], StartsWith("id: e-6\n"));
}

TEST_F(EventHubTest, StreamWithoutFollowEndsAtOnce) {
  EventsRequest request = all(SampleDetail::none);
  EXPECT_FALSE(hub_.open_stream(request)->is_over());
  request.follow = false;
  EXPECT_TRUE(hub_.open_stream(request)->is_over());
}

TEST_F(EventHubTest, ForeignOrInvalidEventIdResyncs) {
  publish(2);
  for (const char* id : {"f-1", "e-3", "nonsense", "e-", "-1"}) {
    const auto stream = hub_.open_stream(events_since(id));
    EXPECT_THAT(take(*stream), ElementsAre(AllOf(StartsWith("id: e-2\nevent: resync\n"),
                                                 HasSubstr("\"reason\":\"unknown_id\""))))
        << id;
    EXPECT_THAT(take(*stream), IsEmpty());
  }
}

TEST_F(EventHubTest, EvictedEventIdResyncs) {
  publish(EventHub::kMaxEvents + 1);
  EXPECT_EQ(take(*hub_.open_stream(events_since("e-1"))).size(), EventHub::kMaxEvents);
  EXPECT_THAT(take(*hub_.open_stream(events_since("e-0"))),
              ElementsAre(HasSubstr("\"reason\":\"too_old\"")));
}

TEST_F(EventHubTest, ResyncsAListenerThatFellTooFarBehind) {
  const auto stream = hub_.open_stream(all(SampleDetail::none));
  take(*stream);
  publish(EventHub::kMaxEvents);
  EXPECT_EQ(take(*stream).size(), EventHub::kMaxEvents);
  publish(EventHub::kMaxEvents + 1);
  EXPECT_THAT(take(*stream), ElementsAre(HasSubstr("\"reason\":\"too_old\"")));
  publish(1);
  EXPECT_EQ(take(*stream).size(), 1U);
}

TEST_F(EventHubTest, KeepsNoMoreBytesThanItsLimit) {
  const std::string large(EventHub::kMaxEventBytes / 4, 'x');
  for (int i = 0; i < 10; ++i) hub_.publish("device", large);
  EXPECT_EQ(take(*hub_.open_stream(events_since("e-7"))).size(), 3U);
  EXPECT_THAT(take(*hub_.open_stream(events_since("e-6"))), ElementsAre(HasSubstr("too_old")));
}

TEST_F(EventHubTest, ShowsEachSnapshotWithoutAnId) {
  const auto stream = hub_.open_stream(all(SampleDetail::summary));
  take(*stream);
  hub_.set_snapshot(snapshot(2));
  EXPECT_THAT(take(*stream),
              ElementsAre(AllOf(StartsWith("event: snapshot\ndata: {\"skipped\":0,\"snapshot\":{"),
                                HasSubstr("\"generation\":2"))));
  EXPECT_THAT(take(*stream), IsEmpty());
}

TEST_F(EventHubTest, SlowListenerGetsNewestSnapshotAndSkippedCount) {
  const auto stream = hub_.open_stream(all(SampleDetail::summary));
  take(*stream);
  for (std::uint64_t generation = 2; generation <= 5; ++generation)
    hub_.set_snapshot(snapshot(generation));
  EXPECT_THAT(take(*stream),
              ElementsAre(AllOf(HasSubstr("{\"skipped\":3,"), HasSubstr("\"generation\":5"))));
  hub_.set_snapshot(snapshot(6));
  EXPECT_THAT(take(*stream), ElementsAre(HasSubstr("{\"skipped\":0,")));
}

TEST_F(EventHubTest, SlowListenerGetsAllEventsBeforeSamples) {
  const auto stream = hub_.open_stream(all(SampleDetail::summary));
  take(*stream);
  hub_.set_snapshot(snapshot(2));
  publish(2);
  hub_.set_snapshot(snapshot(3));
  EXPECT_THAT(take(*stream), ElementsAre(nth(1), nth(2), HasSubstr("{\"skipped\":1,")));
}

TEST_F(EventHubTest, SampleDetailSelectsPayload) {
  const auto summary = hub_.open_stream({});
  const auto full = hub_.open_stream(all(SampleDetail::full));
  const auto none = hub_.open_stream(all(SampleDetail::none));
  for (const auto& stream : {summary, full, none}) take(*stream);
  hub_.set_snapshot(snapshot(2));
  EXPECT_THAT(take(*none), IsEmpty());
  EXPECT_THAT(take(*summary), ElementsAre(Not(HasSubstr("readings"))));
  EXPECT_THAT(take(*full), ElementsAre(HasSubstr("\"readings\":{")));
}

TEST_F(EventHubTest, EqualRequestsShareRenderedBytes) {
  const auto one = hub_.open_stream({});
  const auto two = hub_.open_stream({});
  take(*one);
  take(*two);
  hub_.set_snapshot(snapshot(2));
  EXPECT_EQ(one->next().framed().data(), two->next().framed().data());
  publish(1);
  EXPECT_EQ(one->next().framed().data(), two->next().framed().data());
}

TEST_F(EventHubTest, GpuFilterAcceptsIndexUuidOrPciAddress) {
  for (const char* name : {"1", "GPU-1", "0000:02:00.0"}) {
    EventsRequest request;
    request.gpus = name;
    const auto stream = hub_.open_stream(request);
    EXPECT_THAT(take(*stream),
                ElementsAre(AllOf(HasSubstr("\"index\":1"), Not(HasSubstr("\"index\":0")))));
    hub_.set_snapshot(snapshot(2));
    EXPECT_THAT(take(*stream),
                ElementsAre(AllOf(HasSubstr("\"index\":1"), Not(HasSubstr("\"index\":0")))));
  }
}

TEST_F(EventHubTest, GpuFilterPassesNamedAndGlobalEvents) {
  EventsRequest request = all(SampleDetail::none);
  request.gpus = "1";
  const auto stream = hub_.open_stream(request);
  take(*stream);
  hub_.publish("device", "zero", "GPU-0");
  hub_.publish("device", "one", "GPU-1");
  hub_.publish("device", "driver");
  EXPECT_THAT(take(*stream), ElementsAre(HasSubstr("data: one"), HasSubstr("data: driver")));
}

TEST_F(EventHubTest, KnowsANamedGpuOnceItIsThere) {
  EventHub hub("e", std::make_shared<const Snapshot>());
  EventsRequest request = all(SampleDetail::none);
  request.gpus = "1";
  const auto stream = hub.open_stream(request);
  take(*stream);
  hub.set_snapshot(snapshot(1));
  hub.publish("device", "zero", "GPU-0");
  hub.publish("device", "one", "GPU-1");
  hub.set_snapshot(std::make_shared<const Snapshot>());
  hub.publish("device", "gone", "GPU-1");
  EXPECT_THAT(take(*stream), ElementsAre(HasSubstr("data: one"), HasSubstr("data: gone")));
}

TEST_F(EventHubTest, ListenersWakeOnlyForRequestedContent) {
  const auto events = hub_.open_stream(all(SampleDetail::none));
  const auto samples = hub_.open_stream({});
  int woken_events = 0;
  int woken_samples = 0;
  events->set_on_more([&] { ++woken_events; });
  samples->set_on_more([&] { ++woken_samples; });
  hub_.set_snapshot(snapshot(2));
  publish(1);
  EXPECT_EQ(woken_events, 1);
  EXPECT_EQ(woken_samples, 2);
}

TEST_F(EventHubTest, ForgetsAListenerThatEnds) {
  auto stream = hub_.open_stream({});
  EXPECT_EQ(hub_.listeners(), 1U);
  stream = nullptr;
  EXPECT_EQ(hub_.listeners(), 0U);
  publish(1);
}

TEST_F(EventHubTest, MayEndBeforeItsListeners) {
  auto hub = std::make_unique<EventHub>("e", snapshot(1));
  const auto stream = hub->open_stream({});
  hub = nullptr;
  EXPECT_EQ(take(*stream).size(), 1U);
}

TEST_F(EventHubTest, EventDataMatchesRecords) {
  const auto data = [](const std::string& event) {
    const std::size_t begin = event.find("data: ") + 6;
    return event.substr(begin, event.size() - begin - 2);
  };
  const auto summary = hub_.open_stream({});
  const auto full = hub_.open_stream(all(SampleDetail::full));
  EXPECT_TRUE(json::from_json<protocol::SummaryResync>(data(take(*summary).at(0))));
  EXPECT_TRUE(json::from_json<protocol::FullResync>(data(take(*full).at(0))));
  hub_.set_snapshot(snapshot(2));
  EXPECT_TRUE(json::from_json<protocol::SummarySample>(data(take(*summary).at(0))));
  EXPECT_TRUE(json::from_json<protocol::FullSample>(data(take(*full).at(0))));
}

TEST_F(EventHubTest, NewestStateReachesSnapshotListenersOnly) {
  hub_.publish_state("load", "0");  // before anybody listens
  const auto stream = hub_.open_stream(all(SampleDetail::summary));
  const auto events_only = hub_.open_stream(events_since("e-0"));
  take(*stream);
  hub_.publish_state("load", "1");
  hub_.publish_state("load", "2");
  EXPECT_THAT(take(*stream), ElementsAre("event: load\ndata: 2\n\n"));
  EXPECT_THAT(take(*stream), IsEmpty());
  EXPECT_THAT(take(*events_only), IsEmpty());
  hub_.publish_state("load", "3");
  EXPECT_THAT(take(*stream), ElementsAre("event: load\ndata: 3\n\n"));
}

TEST_F(EventHubTest, AReportComesAfterTheEventsBeforeIt) {
  const auto stream = hub_.open_stream(all(SampleDetail::summary));
  take(*stream);
  hub_.publish_state("load", "1");
  publish(1);
  EXPECT_THAT(take(*stream), ElementsAre(nth(1), "event: load\ndata: 1\n\n"));
}

// Snapshots in columns.
class Columns : public EventHubTest {
 protected:
  static std::shared_ptr<Snapshot> busy(std::uint64_t generation, std::size_t gpus = 2) {
    auto made = std::make_shared<Snapshot>(*snapshot(generation));
    while (made->devices.size() < gpus) {
      DeviceState device = made->devices.front();
      device.info.index = static_cast<std::uint32_t>(made->devices.size());
      device.info.id = device.info.uuid = "GPU-" + std::to_string(device.info.index);
      made->devices.push_back(std::move(device));
    }
    made->wall = WallTime(std::chrono::milliseconds(1'767'225'600'000 + 1000 * generation));
    for (DeviceState& device : made->devices) {
      device.sample.set({Metric::utilization_gpu, 0, {}, std::int64_t{97}});
      device.sample.set({Metric::temperature_core, 0, {}, std::int64_t{70}});
      device.sample.set({Metric::power_draw, 0, {}, std::int64_t{666'551}});
      device.sample.set({Metric::clock_sm, 0, {}, std::int64_t{1965}});
      device.sample.set({Metric::memory_used, 0, {}, std::int64_t{77'031'643'545}});
      device.sample.set({Metric::power_limit, 0, {}, std::int64_t{700'000}});
      device.bottleneck = Bottleneck{.cause = BottleneckCause::power_cap, .share_percent = 38};
    }
    return made;
  }
};

TEST_F(Columns, StaticDataIsSentOnceThenValues) {
  hub_.set_snapshot(busy(2));
  const auto stream = hub_.open_stream(all(SampleDetail::columns));
  const auto first = take(*stream);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_THAT(first[0], AllOf(StartsWith("id: e-0\nevent: resync\ndata: {\"schema\":1,\"reason\":"
                                         "\"new_listener\""),
                              HasSubstr("\"columns\":[\"utilization_gpu_percent\""),
                              HasSubstr("\"power_limit_w\":700")));
  hub_.set_snapshot(busy(3));
  EXPECT_THAT(take(*stream),
              ElementsAre("event: columns\ndata: {\"t_ms\":1767225603000,\"v\":[[97,97],[70,70],"
                          "[667,667],[1965,1965],[73463,73463],[38,38]]}\n\n"));
}

TEST_F(Columns, MissingOrOldReadingIsNull) {
  hub_.set_snapshot(busy(2));
  const auto stream = hub_.open_stream(all(SampleDetail::columns));
  take(*stream);
  auto next = busy(3);
  next->devices[0].sample.set(
      {Metric::power_draw, 0, {}, Missing{MissingReason::not_supported, ""}});
  hub_.set_snapshot(next);
  EXPECT_THAT(take(*stream), ElementsAre(HasSubstr("[null,667]")));
}

TEST_F(Columns, ChangedGpusOrLimitsCauseResync) {
  hub_.set_snapshot(busy(2));
  const auto stream = hub_.open_stream(all(SampleDetail::columns));
  take(*stream);
  hub_.set_snapshot(busy(3, 3));
  EXPECT_THAT(take(*stream), ElementsAre(HasSubstr("\"reason\":\"gpus_changed\"")));
  auto capped = busy(4, 3);
  capped->devices[1].sample.set({Metric::power_limit, 0, {}, std::int64_t{500'000}});
  hub_.set_snapshot(capped);
  EXPECT_THAT(take(*stream), ElementsAre(HasSubstr("\"power_limit_w\":500")));
  capped = busy(5, 3);
  capped->devices[1].sample.set({Metric::power_limit, 0, {}, std::int64_t{500'000}});
  hub_.set_snapshot(capped);
  EXPECT_THAT(take(*stream), ElementsAre(StartsWith("event: columns\n")));
}

TEST_F(Columns, AListenerOfSomeGpusGetsTheirs) {
  hub_.set_snapshot(busy(2, 4));
  auto request = all(SampleDetail::columns);
  request.gpus = "1,3";
  const auto stream = hub_.open_stream(request);
  EXPECT_THAT(take(*stream).at(0), AllOf(HasSubstr("GPU-3"), Not(HasSubstr("GPU-2"))));
  hub_.set_snapshot(busy(3, 4));
  EXPECT_THAT(take(*stream), ElementsAre(HasSubstr("[97,97],")));
}

TEST_F(Columns, ReportsAreLeftOut) {
  hub_.set_snapshot(busy(2));
  const auto stream = hub_.open_stream(all(SampleDetail::columns));
  take(*stream);
  hub_.publish_state("load", "{}");
  EXPECT_THAT(take(*stream), IsEmpty());
}

TEST_F(Columns, AreFewBytes) {
  for (const auto& [gpus, most] : {std::pair<std::size_t, std::size_t>{8, 400}, {64, 2000}}) {
    hub_.set_snapshot(busy(2, gpus));
    const auto stream = hub_.open_stream(all(SampleDetail::columns));
    take(*stream);
    hub_.set_snapshot(busy(3, gpus));
    EXPECT_LE(take(*stream).at(0).size(), most) << gpus;
  }
}

TEST_F(Columns, AreRenderedOnceForAllListeners) {
  hub_.set_snapshot(busy(2));
  const auto one = hub_.open_stream(all(SampleDetail::columns));
  const auto other = hub_.open_stream(all(SampleDetail::columns));
  take(*one);
  take(*other);
  hub_.set_snapshot(busy(3));
  EXPECT_EQ(one->next().text().data(), other->next().text().data());
}

TEST_F(Columns, BottleneckChangesPublishEveryFiveSecondsAtMost) {
  BottleneckPublisher publisher(hub_);
  const auto stream = hub_.open_stream(all(SampleDetail::none));
  take(*stream);
  const auto show = [&](int second, BottleneckCause cause) {
    auto made = busy(2, 1);
    made->taken = TimePoint(std::chrono::seconds(second));
    made->devices.resize(1);
    made->devices[0].bottleneck->cause = cause;
    publisher.on_snapshot(*made);
  };
  show(1, BottleneckCause::none);
  EXPECT_THAT(take(*stream), IsEmpty()) << "the first is no news";
  show(2, BottleneckCause::heat);
  EXPECT_THAT(take(*stream), IsEmpty()) << "too soon after it";
  show(6, BottleneckCause::heat);
  EXPECT_THAT(take(*stream), ElementsAre(AllOf(HasSubstr("event: bottleneck\n"),
                                               HasSubstr("\"cause\":\"heat\""))));
  for (int second = 7; second < 11; ++second) {
    show(second, second % 2 == 0 ? BottleneckCause::heat : BottleneckCause::power_cap);
    EXPECT_THAT(take(*stream), IsEmpty());
  }
  show(11, BottleneckCause::power_cap);
  EXPECT_THAT(take(*stream), ElementsAre(HasSubstr("\"cause\":\"power_cap\"")));
}

}  // namespace
}  // namespace gpuyard::api
