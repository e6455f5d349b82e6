#include "api/lease_news.h"

#include "api/lease_routes_for_tests.h"
#include "base/json_reader.h"

namespace gpuyard::api {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class News : public LeaseRoutes {
 protected:
  News() {
    world_.leases->on_change(
        [this](const lease::Lease& now, lease::State) { news_.on_change(now); });
    news_.start();
    take(*feed_);
  }
  static std::vector<std::string> take(http::Feed& feed) {
    std::vector<std::string> taken;
    for (auto chunk = feed.next(); chunk; chunk = feed.next()) taken.emplace_back(chunk.text());
    return taken;
  }
  // The data of an event.
  template <class T>
  static T data_of(const std::string& event) {
    const std::size_t at = event.find("data: ") + 6;
    auto read = json::from_json<T>(event.substr(at, event.find('\n', at) - at));
    EXPECT_TRUE(read) << event;
    return read ? *std::move(read) : T{};
  }

  LeaseNews news_{context_};
  std::shared_ptr<http::Feed> feed_ = hub_.listen({});
};

TEST_F(News, EachChangeOfALeaseIsTold) {
  held(R"({"id":"train-1-of-many-leases","note":"secret"})", process(10));
  auto told = take(*feed_);
  ASSERT_EQ(told.size(), 1U);  // asked and granted, which went to the disk together
  EXPECT_THAT(told[0], testing::StartsWith("id: e-1\nevent: lease\ndata: "));
  const auto held = data_of<protocol::Lease>(told.back());
  EXPECT_EQ(held.state, lease::State::held);
  EXPECT_EQ(held.uid, kAlice);
  EXPECT_THAT(told.back(), Not(HasSubstr("secret")));  // anybody may listen
  EXPECT_EQ(held.pid, std::nullopt);
  del("/api/gpu/leases/train-1-of-many-leases", process(10));
  pass(milliseconds(500));
  told = take(*feed_);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(data_of<protocol::Lease>(told.back()).state, lease::State::ended);
}

TEST_F(News, ALeaseEventIsToldAgainToWhoComesBack) {
  held(R"({"id":"train-1-of-many-leases"})", process(10));
  protocol::EventsRequest request;
  request.last_event_id = "e-0";
  request.samples = protocol::SampleDetail::none;
  const auto back = hub_.listen(request);
  EXPECT_EQ(take(*back).size(), 1U);
}

TEST_F(News, TheLoadIsReportedEveryFiveSeconds) {
  RecordProperty("contract", "D10");
  for (int i = 1; i <= 3; ++i) {
    pass(milliseconds(4999));
    EXPECT_THAT(take(*feed_), IsEmpty());
    pass(milliseconds(1));
    const auto told = take(*feed_);
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0],
              "event: load\ndata: "
              R"({"gpu_pool":[{"index":0,"name":"NVIDIA H100","vendor":"NVIDIA","leased":false},)"
              R"({"index":1,"name":"NVIDIA H100","vendor":"NVIDIA","leased":false}],)"
              R"("pending_claimers":0,"capacity":2})"
              "\n\n");
  }
}

TEST_F(News, TheLoadOfAPoolWithoutGpusIsEmpty) {
  world_.leases->on_gpus({});
  pass(seconds(5));
  EXPECT_THAT(take(*feed_),
              testing::ElementsAre("event: load\ndata: "
                                   R"({"gpu_pool":[],"pending_claimers":0,"capacity":0})"
                                   "\n\n"));
}

TEST_F(News, MetricsAreOfThisMoment) {
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
