// The exporter over real sockets: answers, refusals and the end.
#include "faces/library/exporter.h"

#include <array>
#include <future>
#include <optional>

#include <gtest/gtest.h>

#include "base/manual_worker_for_tests.h"
#include "io/http/client.h"

namespace gpuyard::library {
namespace {

using namespace std::chrono_literals;

constexpr Duration kExporterTimeout = 30s;

Result<http::ClientResponse> get(const Exporter& exporter, const std::string& target,
                                 http::Method method = http::Method::get) {
  http::ClientRequest request;
  request.method = method;
  request.target = target;
  return http::fetch(http::Endpoint::tcp("127.0.0.1", exporter.port()), request, kExporterTimeout);
}

std::unique_ptr<Exporter> serve(Scraper::SnapshotReader read, const ExporterOptions& options = {}) {
  auto exporter = Exporter::start({std::move(read), "p", "1.2.3"}, options);
  EXPECT_TRUE(exporter.ok());
  return *std::move(exporter);
}

Snapshot nothing() {
  return {};
}

TEST(Exporter, MetricsAndDescriptionAreServed) {
  RecordProperty("contract", "C13");
  const auto exporter = serve(nothing, {.version = "1.2.3"});
  const auto metrics = get(*exporter, "/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_EQ(metrics->status, 200);
  EXPECT_EQ(metrics->header("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_NE(metrics->body.find("p_driver_up 0\n"), std::string::npos);
  EXPECT_NE(metrics->body.find("p_build_info{version=\"1.2.3\"} 1\n"), std::string::npos);
  const auto about = get(*exporter, "/");
  ASSERT_TRUE(about);
  EXPECT_EQ(about->body, "gpuyard 1.2.3: the GPUs of this program, for Prometheus, at /metrics\n");
}

TEST(Exporter, UnknownPathOrMethodIsRefused) {
  RecordProperty("contract", "C13");
  const auto exporter = serve(nothing);
  EXPECT_EQ(get(*exporter, "/api/gpu/devices")->status, 404);
  const auto refused = get(*exporter, "/metrics", http::Method::post);
  EXPECT_EQ(refused->status, 405);
  EXPECT_EQ(refused->header("Allow"), "GET, HEAD");
}

TEST(Exporter, EndsWhileAReadingIsUnderWay) {
  std::promise<void> reading;
  std::promise<void> go_on;
  auto may_go_on = go_on.get_future().share();
  auto exporter = serve([&reading, may_go_on] {
    reading.set_value();
    may_go_on.wait_for(kExporterTimeout);
    return Snapshot{};
  });
  auto scrape = std::async(std::launch::async, [port = exporter->port()] {
    http::ClientRequest request;
    request.target = "/metrics";
    return http::fetch(http::Endpoint::tcp("127.0.0.1", port), request, kExporterTimeout).ok();
  });
  ASSERT_EQ(reading.get_future().wait_for(kExporterTimeout), std::future_status::ready);
  exporter.reset();
  EXPECT_FALSE(scrape.get()) << "it had its second";
  go_on.set_value();
}

}  // namespace

namespace {

class ScrapeQueueTest : public ::testing::Test {
 protected:
  void request_scrape(std::size_t scraper, metrics::Format format = metrics::Format::text) {
    scrape_queue_.enqueue(http::Reply([this, scraper](http::Response response) {
                            responses_.at(scraper) = std::move(response);
                          }),
                          format);
  }
  Snapshot read() {
    ++readings_;
    if (during_) std::exchange(during_, nullptr)();
    return snapshot_;
  }
  const std::string* text(std::size_t scraper) const {
    return responses_.at(scraper) ? responses_.at(scraper)->body.get() : nullptr;
  }
  bool has_line(std::size_t scraper, std::string_view line) const {
    return text(scraper) != nullptr && text(scraper)->find(line) != std::string::npos;
  }

  ManualWorker worker_;
  Snapshot snapshot_;
  std::function<void()> during_;  // the next reading
  int readings_ = 0;
  std::array<std::optional<http::Response>, 4> responses_;
  ScrapeQueue scrape_queue_{worker_, Scraper([this] { return read(); }, "p", "1.2.3")};
};

TEST_F(ScrapeQueueTest, ScrapesAtOnceShareOneReading) {
  RecordProperty("contract", "C13");
  request_scrape(0);
  EXPECT_EQ(worker_.waiting(), 1U) << "the first does not wait for others";
  for (const std::size_t scraper : {1U, 2U, 3U}) request_scrape(scraper);
  EXPECT_EQ(worker_.waiting(), 1U);
  worker_.run_all();
  EXPECT_EQ(readings_, 2);
  ASSERT_NE(text(0), nullptr);
  EXPECT_NE(text(0), text(1));
  EXPECT_EQ(text(1), text(2)) << "the very same text";
  EXPECT_EQ(text(1), text(3));
}

TEST_F(ScrapeQueueTest, ScrapeDuringReadGetsFreshRead) {
  RecordProperty("contract", "C13");
  during_ = [this] {
    request_scrape(1);
    snapshot_.driver.initialised = true;
  };
  request_scrape(0);
  worker_.run_all();
  EXPECT_EQ(readings_, 2);
  EXPECT_TRUE(has_line(1, "p_driver_up 1\n"));
}

TEST_F(ScrapeQueueTest, SharedReadIsRenderedPerRequestedFormat) {
  RecordProperty("contract", "C13");
  during_ = [this] {
    request_scrape(1);
    request_scrape(2, metrics::Format::openmetrics);
  };
  request_scrape(0);
  worker_.run_all();
  EXPECT_EQ(readings_, 2);
  EXPECT_EQ(responses_[1]->content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(responses_[2]->content_type,
            "application/openmetrics-text; version=1.0.0; charset=utf-8");
  EXPECT_TRUE(text(2)->ends_with("# EOF\n"));
  EXPECT_FALSE(text(1)->ends_with("# EOF\n"));
  EXPECT_EQ(http::find_header(responses_[2]->headers, "Vary"), "Accept");
}

TEST_F(ScrapeQueueTest, EachScrapeTriggersFreshRead) {
  RecordProperty("contract", "C13");
  for (const std::size_t scraper : {0U, 1U}) {
    request_scrape(scraper);
    worker_.run_all();
  }
  EXPECT_EQ(readings_, 2);
}

TEST_F(ScrapeQueueTest, ReadFailureIsReported) {
  worker_.full = true;
  request_scrape(0);
  ASSERT_TRUE(responses_[0]);
  EXPECT_EQ(responses_[0]->status, 503);
  worker_.full = false;
  request_scrape(1);
  worker_.run_all();
  EXPECT_EQ(responses_[1]->status, 200);
}

TEST_F(ScrapeQueueTest, FailedReadingsAreCounted) {
  DeviceState& device = snapshot_.devices.emplace_back();
  for (const Metric metric : {Metric::temperature_core, Metric::power_draw}) {
    device.sample.set({metric, 0, {}, Missing{MissingReason::failed, "Unknown Error"}});
  }
  device.sample.set({Metric::serial, 0, {}, Missing{MissingReason::not_supported, ""}});
  for (const std::size_t scraper : {0U, 1U}) {
    request_scrape(scraper);
    worker_.run_all();
  }
  EXPECT_TRUE(has_line(0, "query_errors_total{device=\"0\"} 1\n")) << *text(0);
  EXPECT_TRUE(has_line(1, "query_errors_total{device=\"0\"} 2\n"));
}

TEST_F(ScrapeQueueTest, SaysThatGpusAreSimulated) {
  snapshot_.driver.info.simulated = true;
  request_scrape(0);
  worker_.run_all();
  EXPECT_EQ(http::find_header(responses_[0]->headers, "X-Gpuyard-Simulated"), "true");
}

}  // namespace
}  // namespace gpuyard::library
