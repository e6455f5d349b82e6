#include "faces/library/scrape_queue.h"

#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "base/manual_worker_for_tests.h"

namespace gpuyard::library {
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
