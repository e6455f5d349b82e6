#include "library/scrape_desk.h"

#include <array>
#include <optional>

#include <gtest/gtest.h>

#include "base/manual_worker_for_tests.h"

namespace gpuyard::library {
namespace {

class ScrapeDeskTest : public ::testing::Test {
 protected:
  void ask(std::size_t who, metrics::Format format = metrics::Format::text) {
    desk_.ask(
        http::Reply([this, who](http::Response response) { told_.at(who) = std::move(response); }),
        format);
  }
  Snapshot read() {
    ++readings_;
    if (during_) std::exchange(during_, nullptr)();
    return snapshot_;
  }
  const std::string* text(std::size_t who) const {
    return told_.at(who) ? told_.at(who)->body.get() : nullptr;
  }
  bool says(std::size_t who, std::string_view line) const {
    return text(who) != nullptr && text(who)->find(line) != std::string::npos;
  }

  ManualWorker worker_;
  Snapshot snapshot_;
  std::function<void()> during_;  // the next reading
  int readings_ = 0;
  std::array<std::optional<http::Response>, 4> told_;
  ScrapeDesk desk_{worker_, Scraper([this] { return read(); }, "p", "1.2.3")};
};

TEST_F(ScrapeDeskTest, ScrapesAtOnceShareOneReading) {
  RecordProperty("contract", "C13");
  ask(0);
  EXPECT_EQ(worker_.waiting(), 1U) << "the first does not wait for others";
  for (const std::size_t who : {1U, 2U, 3U}) ask(who);
  EXPECT_EQ(worker_.waiting(), 1U);
  worker_.run_all();
  EXPECT_EQ(readings_, 2);
  ASSERT_NE(text(0), nullptr);
  EXPECT_NE(text(0), text(1));
  EXPECT_EQ(text(1), text(2)) << "the very same text";
  EXPECT_EQ(text(1), text(3));
}

TEST_F(ScrapeDeskTest, WhoComesDuringAReadingGetsANewerOne) {
  RecordProperty("contract", "C13");
  during_ = [this] {
    ask(1);
    snapshot_.driver.initialised = true;
  };
  ask(0);
  worker_.run_all();
  EXPECT_EQ(readings_, 2);
  EXPECT_TRUE(says(1, "p_driver_up 1\n"));
}

TEST_F(ScrapeDeskTest, OneReadingIsToldInTheFormatThatEachAskedFor) {
  RecordProperty("contract", "C13");
  during_ = [this] {
    ask(1);
    ask(2, metrics::Format::openmetrics);
  };
  ask(0);
  worker_.run_all();
  EXPECT_EQ(readings_, 2);
  EXPECT_EQ(told_[1]->content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(told_[2]->content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
  EXPECT_TRUE(text(2)->ends_with("# EOF\n"));
  EXPECT_FALSE(text(1)->ends_with("# EOF\n"));
  EXPECT_EQ(http::find_header(told_[2]->headers, "Vary"), "Accept");
}

TEST_F(ScrapeDeskTest, ReadsAnewForEachScrape) {
  RecordProperty("contract", "C13");
  for (const std::size_t who : {0U, 1U}) {
    ask(who);
    worker_.run_all();
  }
  EXPECT_EQ(readings_, 2);
}

TEST_F(ScrapeDeskTest, SaysSoWhenItCannotRead) {
  worker_.full = true;
  ask(0);
  ASSERT_TRUE(told_[0]);
  EXPECT_EQ(told_[0]->status, 503);
  worker_.full = false;
  ask(1);
  worker_.run_all();
  EXPECT_EQ(told_[1]->status, 200);
}

TEST_F(ScrapeDeskTest, CountsWhatTheDriverFailedToGive) {
  DeviceState& device = snapshot_.devices.emplace_back();
  for (const Metric metric : {Metric::temperature_core, Metric::power_draw}) {
    device.sample.set({metric, 0, {}, Missing{MissingReason::failed, "Unknown Error"}});
  }
  device.sample.set({Metric::serial, 0, {}, Missing{MissingReason::not_supported, ""}});
  for (const std::size_t who : {0U, 1U}) {
    ask(who);
    worker_.run_all();
  }
  EXPECT_TRUE(says(0, "query_errors_total{device=\"0\"} 1\n")) << *text(0);
  EXPECT_TRUE(says(1, "query_errors_total{device=\"0\"} 2\n"));
}

TEST_F(ScrapeDeskTest, SaysThatGpusAreSimulated) {
  snapshot_.driver.info.simulated = true;
  ask(0);
  worker_.run_all();
  EXPECT_EQ(http::find_header(told_[0]->headers, "X-Gpuyard-Simulated"), "true");
}

}  // namespace
}  // namespace gpuyard::library
