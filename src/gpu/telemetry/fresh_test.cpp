// Tests reads that a caller waits for, beside the ticks.
#include <algorithm>

#include <gtest/gtest.h>

#include "gpu/device/error.h"
#include "gpu/telemetry/telemetry_for_tests.h"

namespace gpuyard::telemetry {
namespace {

using std::chrono::milliseconds;

class FreshReadTest : public TelemetryTest {
 protected:
  void request_fresh_read() {
    telemetry_.read_fresh({Probe::memory},
                          [this](const SnapshotPtr& result) { results_.push_back(result); });
  }
  void begin_fresh_read() {
    request_fresh_read();
    loop_.run_posted();
  }
  const Reading& memory(std::size_t result, std::size_t gpu) const {
    return *results_.at(result)->devices.at(gpu).sample.find(Metric::memory_used);
  }
  std::vector<SnapshotPtr> results_;
};

TEST_F(FreshReadTest, QueriesDriverAtOnceForRequestedProbesOnly) {
  RecordProperty("contract", "E1");
  start(2);
  value_ = 99;
  loop_.advance(milliseconds(500));
  begin_fresh_read();
  ASSERT_EQ(pending_requests_.size(), 2U);
  EXPECT_EQ(pending_requests_[0].probes, ProbeSet{Probe::memory});
  answer();
  ASSERT_EQ(results_.size(), 1U);
  EXPECT_EQ(*memory(0, 1).number(), 99);
  EXPECT_EQ(results_[0]->devices[0].sample.find(Metric::power_draw), nullptr);
}

TEST_F(FreshReadTest, SomeGpusAreReadAlone) {
  RecordProperty("contract", "E1");
  start(3);
  loop_.advance(milliseconds(500));
  const auto keep = [this](const SnapshotPtr& result) { results_.push_back(result); };
  telemetry_.read_fresh({Probe::memory}, {"GPU-1"}, keep);
  loop_.run_posted();
  ASSERT_EQ(pending_requests_.size(), 1U);
  EXPECT_EQ(pending_requests_[0].device, "GPU-1");
  telemetry_.read_fresh({Probe::memory}, {"GPU-0"}, keep);  // these two share the next read
  telemetry_.read_fresh({Probe::memory}, {"GPU-2"}, keep);
  answer();
  ASSERT_EQ(results_.size(), 3U);
  ASSERT_EQ(results_[0]->devices.size(), 1U);
  EXPECT_EQ(results_[0]->devices[0].info.id, "GPU-1");
  ASSERT_EQ(results_[1]->devices.size(), 2U);
  EXPECT_EQ(results_[1]->devices[1].info.id, "GPU-2");
  EXPECT_NE(memory(1, 1).number(), nullptr);
  telemetry_.read_fresh({Probe::memory}, {"GPU-9"}, keep);  // which is not there
  loop_.run_posted();
  ASSERT_EQ(results_.size(), 4U);
  EXPECT_TRUE(results_[3]->devices.empty());
}

TEST_F(FreshReadTest, ProcessListIsCurrentOrMissing) {
  start(2);
  loop_.advance(milliseconds(500));
  SnapshotPtr result;
  telemetry_.read_fresh({Probe::processes}, [&](const SnapshotPtr& fresh) { result = fresh; });
  processes_.set(ProcessList{loop_.now(), std::vector<GpuProcess>{{4711, {}, {}, {}}}});
  stuck_ = "GPU-1";
  answer();
  loop_.advance(kFreshReadTimeout);
  ASSERT_TRUE(result);
  const auto& list = result->devices[0].sample.processes();
  ASSERT_TRUE(list && list->processes() != nullptr);
  EXPECT_EQ(list->processes()->at(0).pid, 4711U);
  EXPECT_EQ(result->devices[1].sample.processes()->processes(), nullptr) << "it is an older one";
}

TEST_F(FreshReadTest, OldReadingIsTimedOutInFreshRead) {
  RecordProperty("contract", "E1 E2");
  start(2);
  loop_.advance(milliseconds(500));
  stuck_ = "GPU-0";
  request_fresh_read();
  answer();
  EXPECT_TRUE(results_.empty());
  loop_.advance(kFreshReadTimeout);
  ASSERT_EQ(results_.size(), 1U);
  EXPECT_EQ(memory(0, 0).missing()->reason, MissingReason::timed_out);
  EXPECT_NE(memory(0, 1).number(), nullptr);
}

TEST_F(FreshReadTest, EarlierQueryReplyIsNotFresh) {
  start(1);
  loop_.advance(kFastInterval);  // the tick's query is pending
  loop_.advance(milliseconds(10));
  const ReadRequest tick = pending_requests_.front();
  const Sample old = sample(tick);  // read before the fresh read was requested
  loop_.advance(milliseconds(10));
  begin_fresh_read();
  pending_requests_.clear();
  telemetry_.on_replies({{tick.id, tick.device, old}});
  EXPECT_TRUE(results_.empty());
  answer();
  ASSERT_EQ(results_.size(), 1U);
}

TEST_F(FreshReadTest, ConcurrentCallersShareNextRead) {
  start(1);
  loop_.advance(milliseconds(500));
  begin_fresh_read();
  request_fresh_read();
  request_fresh_read();
  EXPECT_EQ(pending_requests_.size(), 1U);
  loop_.advance(milliseconds(1));
  value_ = 50;
  answer();
  EXPECT_EQ(results_.size(), 3U);
  EXPECT_EQ(results_[1], results_[2]) << "the second and third share one";
  EXPECT_NE(results_[0], results_[1]);
}

TEST_F(FreshReadTest, CallersShareOneRead) {
  start(1);
  loop_.advance(milliseconds(500));
  request_fresh_read();
  request_fresh_read();
  EXPECT_TRUE(pending_requests_.empty());
  answer();
  ASSERT_EQ(results_.size(), 2U);
  EXPECT_EQ(results_[0], results_[1]);
}

TEST_F(FreshReadTest, UnresponsiveGpuDoesNotDelayResult) {
  start(2);
  stuck_ = "GPU-0";
  pass(std::chrono::seconds(3));
  request_fresh_read();
  answer();
  ASSERT_EQ(results_.size(), 1U) << "answered at once, without the deadline";
  EXPECT_EQ(memory(0, 0).missing()->reason, MissingReason::timed_out);
  EXPECT_EQ(*memory(0, 1).number(), 42);
}

TEST_F(FreshReadTest, MissingDriverPostsEmptyResult) {
  RecordProperty("contract", "E6");
  telemetry_.on_no_driver(init_error("Driver Not Loaded"));
  request_fresh_read();
  EXPECT_TRUE(results_.empty());
  loop_.run_posted();
  ASSERT_EQ(results_.size(), 1U);
  EXPECT_TRUE(results_[0]->devices.empty());
}

TEST_F(FreshReadTest, HostExitFailsPendingRead) {
  start(1);
  loop_.advance(milliseconds(500));
  begin_fresh_read();
  telemetry_.on_host_down("driver-host exited");
  ASSERT_EQ(results_.size(), 1U);
  EXPECT_EQ(memory(0, 0).missing()->reason, MissingReason::failed);
}

TEST_F(FreshReadTest, CallbackMayRequestAnotherRead) {
  start(1);
  loop_.advance(milliseconds(500));
  int answers = 0;
  telemetry_.read_fresh({Probe::memory}, [&](const SnapshotPtr&) {
    ++answers;
    telemetry_.read_fresh({Probe::memory}, [&](const SnapshotPtr&) { ++answers; });
  });
  answer();
  loop_.advance(milliseconds(1));
  answer();
  EXPECT_EQ(answers, 2);
}

TEST_F(TelemetryTest, FreshReadDoesNotWaitForGoneGpu) {
  start(2);
  start(1);
  bool landed = false;
  telemetry_.read_fresh({Probe::memory}, [&](const SnapshotPtr& all) {
    landed = true;
    EXPECT_EQ(all->devices.size(), 2U);
  });
  answer();
  EXPECT_TRUE(landed);
}

}  // namespace
}  // namespace gpuyard::telemetry
