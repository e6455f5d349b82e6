#include "faces/api/lease_publisher.h"

#include "base/json_reader.h"
#include "faces/api/routes_for_tests.h"

namespace gpuyard::api {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class LeasePublisherTest : public LeaseRoutes {
 protected:
  LeasePublisherTest() {
    world_.leases->set_on_change(
        [this](const lease::Lease& now, lease::LeaseState) { lease_publisher_.on_change(now); });
    lease_publisher_.start();
    take(*event_stream_);
  }
  static std::vector<std::string> take(http::ResponseStream& claim_stream) {
    std::vector<std::string> taken;
    for (auto chunk = claim_stream.next(); chunk; chunk = claim_stream.next())
      taken.emplace_back(chunk.text());
    return taken;
  }
  // Returns the data of an event.
  template <class T>
  static T data_of(const std::string& event) {
    const std::size_t at = event.find("data: ") + 6;
    auto read = json::from_json<T>(event.substr(at, event.find('\n', at) - at));
    EXPECT_TRUE(read) << event;
    return read ? *std::move(read) : T{};
  }

  LeasePublisher lease_publisher_{context_.leases, hub_};
  std::shared_ptr<http::ResponseStream> event_stream_ = hub_.open_stream({});
};

TEST_F(LeasePublisherTest, LeaseChangesAreEventsWithoutPrivateFields) {
  held(R"({"id":"train-1-of-many-leases","note":"secret"})", process(10));
  auto chunks = take(*event_stream_);
  ASSERT_EQ(chunks.size(), 1U);  // claimed and granted, which went to the disk together
  EXPECT_THAT(chunks[0], testing::StartsWith("id: 00ff-1\nevent: lease\ndata: "));
  const auto held = data_of<protocol::Lease>(chunks.back());
  EXPECT_EQ(held.state, lease::LeaseState::held);
  EXPECT_EQ(held.uid, kAlice);
  EXPECT_THAT(chunks.back(), Not(HasSubstr("secret")));  // anybody may listen
  EXPECT_EQ(held.pid, std::nullopt);
  del("/api/gpu/leases/train-1-of-many-leases", process(10));
  pass(milliseconds(500));
  chunks = take(*event_stream_);
  ASSERT_FALSE(chunks.empty());
  EXPECT_EQ(data_of<protocol::Lease>(chunks.back()).state, lease::LeaseState::ended);
}

TEST_F(LeasePublisherTest, ReconnectReplaysLeaseEvents) {
  held(R"({"id":"train-1-of-many-leases"})", process(10));
  protocol::EventsRequest request;
  request.last_event_id = "00ff-0";
  request.samples = protocol::SampleDetail::none;
  const auto back = hub_.open_stream(request);
  EXPECT_EQ(take(*back).size(), 1U);
}

TEST_F(LeasePublisherTest, TheLoadIsReportedEveryFiveSeconds) {
  RecordProperty("contract", "D10");
  for (int i = 1; i <= 3; ++i) {
    pass(milliseconds(4999));
    EXPECT_THAT(take(*event_stream_), IsEmpty());
    pass(milliseconds(1));
    const auto chunks = take(*event_stream_);
    ASSERT_EQ(chunks.size(), 1U);
    EXPECT_EQ(chunks[0],
              "event: load\ndata: "
              R"({"gpu_pool":[{"index":0,"name":"NVIDIA H100","vendor":"NVIDIA","leased":false},)"
              R"({"index":1,"name":"NVIDIA H100","vendor":"NVIDIA","leased":false}],)"
              R"("pending_claimers":0,"capacity":2})"
              "\n\n");
  }
}

TEST_F(LeasePublisherTest, LoadWithoutGpusIsEmpty) {
  world_.leases->on_gpus({});
  pass(seconds(5));
  EXPECT_THAT(take(*event_stream_),
              testing::ElementsAre("event: load\ndata: "
                                   R"({"gpu_pool":[],"pending_claimers":0,"capacity":0})"
                                   "\n\n"));
}

TEST_F(LeasePublisherTest, MetricsAreOfThisMoment) {
  const auto line = [&](const std::string& name) {
    const std::string text = "\n" + get("/metrics")->text();
    const std::size_t at = text.find("\ngpuyard_" + name + " ");
    EXPECT_NE(at, text.npos) << name << text;
    return at == text.npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  };
  EXPECT_EQ(line("leases_held"), "gpuyard_leases_held 0");
  held(R"({"id":"train-1-of-many-leases"})", process(10));
  const auto waits = claim(R"({"gpus":2})", process(11, kBob));
  EXPECT_EQ(line("gpu_leased{device=\"0\"}"), "gpuyard_gpu_leased{device=\"0\"} 1");
  EXPECT_EQ(line("gpu_leased{device=\"1\"}"), "gpuyard_gpu_leased{device=\"1\"} 0");
  EXPECT_EQ(line("leases_held"), "gpuyard_leases_held 1");
  EXPECT_EQ(line("lease_waiting"), "gpuyard_lease_waiting 1");
  EXPECT_EQ(line("lease_grants_total"), "gpuyard_lease_grants_total 1");
  EXPECT_THAT(get("/metrics")->text(), Not(HasSubstr("train-1-of-many-leases")));
}

}  // namespace
}  // namespace gpuyard::api
